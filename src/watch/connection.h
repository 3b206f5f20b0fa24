// A non-blocking TCP connection between two watchdogs that exchange notes.
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

// Returns the addresses at which other hosts may reach this one, the loopback
// last: those of all interfaces that are up, or only of the one that
// SYNCOPATE_INTERFACE names.
std::vector<Address> own_addresses();

// Returns a socket listening at a free port of all addresses. Errors:
// kPeerLost.
int listen_anywhere(uint16_t& port);

class Connection {
 public:
  Connection() = default;
  explicit Connection(int descriptor);         // accepted
  Connection(Address address, uint16_t port);  // starts connecting
  Connection(Connection&& other) noexcept { *this = std::move(other); }
  Connection& operator=(Connection&& other) noexcept;
  ~Connection() { close(); }

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  bool has_output() const { return !out_.empty(); }
  // Returns the events that poll(2) should watch.
  short events() const;

  // Ignored while 4 MiB already wait to be sent: the peer takes nothing.
  void put(const Note& note);
  // Sends what it can and reads what is there. After the peer has closed, or an
  // error, notes that arrived before can still be taken.
  void exchange();
  std::optional<Note> take();
  void close();

 private:
  int descriptor_ = -1;
  bool is_connecting_ = false;
  std::string in_, out_;
};

}  // namespace syncopate
