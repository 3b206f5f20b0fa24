// A TCP connection between two watchdogs: notes go in and come out, nothing
// waits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "watch/note.h"

namespace syncopate {

// An IPv4 address of this host, in network order.
using Address = uint32_t;
std::string text_of(Address address);

// Where other hosts may reach this one, the loopback last: the interfaces that
// are up, or of those only the one that SYNCOPATE_INTERFACE names.
std::vector<Address> own_addresses();

// A socket that listens at a free port of all addresses. Error(kPeerLost).
int listen_anywhere(uint16_t& port);

class Connection {
 public:
  Connection() = default;
  explicit Connection(int descriptor);         // accepted
  Connection(Address address, uint16_t port);  // being made
  Connection(Connection&& other) noexcept { *this = std::move(other); }
  Connection& operator=(Connection&& other) noexcept;
  ~Connection() { close(); }

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  bool has_output() const { return !out_.empty(); }
  // What poll(2) should look for.
  short events() const;

  // Dropped where the peer has taken nothing for long.
  void put(const Note& note);
  // Sends what it can and reads what there is. After the peer has closed, or
  // an error, notes that came before can still be taken.
  void exchange();
  std::optional<Note> take();
  void close();

 private:
  int descriptor_ = -1;
  bool is_connecting_ = false;
  std::string in_, out_;
};

}  // namespace syncopate
