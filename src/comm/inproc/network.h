// The virtual network between the workers of one process: which links a message
// passes, when each of them is free, and so when the message arrives.
//
// Every worker has one link in each direction (full duplex), and so has every
// parameter server on a machine of its own. Workers of an island have links of
// their own among themselves, and share an uplink and a downlink to everybody
// else. A link carries one message after the other, in the order in which their
// first bytes reach it. A message is forwarded while it is still arriving
// (cut-through), and a busy link delays it without holding up the link before
// it (no back-pressure). Where messages come in more slowly than the link could
// carry them, they share it byte by byte: they wait only for what exceeds the
// link's rate.
//
// A boundary sets workers' clocks back, so messages sent while workers arrive
// there may lie in the future of messages sent afterwards. The intervals in
// which they occupy links are kept apart: later messages use the time between
// them, and are interrupted by intervals before which they do not fit. So a
// link that has work is never idle, as without a boundary.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "comm/world.h"

namespace syncopate::inproc {

// A message on its way.
class Transit {
 public:
  bool has_arrived() const { return next_ == num_hops_; }
  // When its first byte reaches the next link or, if it has arrived, when its
  // last byte reached the receiver.
  Time at() const { return has_arrived() ? last_ : first_; }
  Time left() const { return left_; }  // when the first link was done with it

 private:
  friend class Network;
  static constexpr int kMaxHops = 6;

  std::array<int, kMaxHops> links_{};
  int8_t num_hops_ = 0, next_ = 0;
  bool is_probe_ = false;
  int from_ = 0;
  double bytes_ = 0;
  Time latency_s_ = 0;  // behind the link that sends
  Time first_ = 0, last_ = 0, left_ = 0;
  Time spread_ = 0;  // from the first to the last byte: its slowest link so far
};

class Network {
 public:
  Network(int workers, const NetworkCost& cost);

  // The rank of a parameter server: N + i on a machine of its own, otherwise
  // that of worker i.
  int server_rank(int index) const {
    return cost_.has_servers_apart ? workers_ + index : index;
  }
  // The worker of this rank, or of this server's number.
  int worker_of(int rank) const {
    return is_server(rank) ? rank - workers_ : rank;
  }
  // A worker's island; 0 if there are none.
  int host_of(int rank) const {
    return cost_.island > 0 ? rank / cost_.island : 0;
  }

  // Sends a message, which takes the first link at `now` or once it is free. A
  // probe takes as long as a message, but delays no other.
  Transit send(int from, int to, int64_t bytes, bool is_probe, Time now);
  // Takes the next link. Calls must come in the order of at().
  void pass(Transit& message);

  // Returns when a ring all-reduce of `elems` floats over these workers (ranks)
  // ends: 2 (N - 1) rounds in which each member sends 1 / N of the bytes to the
  // next. It begins once the members' own links are free and then takes each
  // of them for its messages. The slowest message sets the rate, and each chunk
  // meets all latencies. Rings share an uplink: it takes their messages one
  // after the other, and a ring ends no sooner than its own have passed.
  Time ring(std::span<const int> members, int64_t elems, Time now);

  // What a message between any two workers costs, if all links are alike and
  // never degraded: it occupies a link for service_s(bytes), and arrives
  // latency_s after it left.
  struct AlikeLinks {
    Time latency_s = 0, message_s = 0;
    double bytes_per_s = 0;  // 0: no limit
    Time service_s(int64_t bytes) const {
      return message_s +
             (bytes_per_s > 0 ? static_cast<double>(bytes) / bytes_per_s : 0);
    }
  };
  std::optional<AlikeLinks> alike_links() const;
  NetworkCost::Sums sums() const { return cost_.sums; }
  // Until when a worker's outgoing link is taken, apart from later intervals.
  Time& out_free(int rank) { return links_[link_of(kOut, rank)].free; }

  // Call when the first worker reaches a boundary, and when all leave it, after
  // which nothing is sent before `earliest`.
  void come_to_boundary() { is_at_boundary_ = true; }
  void leave_boundary(Time earliest);
  // When a worker's links, and those of its island and its parameter server,
  // are taken: the state of a boundary.
  LinkClocks clocks(int rank) const;
  void set_clocks(int rank, const LinkClocks& clocks);

 private:
  enum Kind : uint8_t {
    kFromDevice,
    kOut,
    kInsideOut,
    kUp,
    kDown,
    kInsideIn,
    kIn,
    kToDevice,
    kServerOut,  // of parameter servers
    kServerIn,
  };
  static constexpr int kNumKinds = kServerIn + 1, kNumOfWorkers = kServerOut;
  static_assert(kNumOfWorkers ==
                std::tuple_size_v<decltype(LinkClocks::taken_until)>);
  struct Interval {
    Time from = 0, until = 0;
  };
  struct Link {
    double bytes_per_s = 0;  // 0: no limit
    double message_s = 0;    // cost of a message beside its bytes
    Time free = 0;
    std::vector<Interval> later = {};  // apart, in order of time, disjoint
    Time drained = 0;  // the end of those of the boundary to which workers come
    bool takes_time() const { return bytes_per_s > 0 || message_s > 0; }
    void take(Time from, Time until, bool is_at_boundary);
    void forget_until(Time time);
    std::vector<Interval>::const_iterator after(Time time) const;
  };

  bool is_server(int rank) const { return rank >= workers_; }
  static bool is_of_server(Kind kind) { return kind >= kServerOut; }
  int link_of(Kind kind, int rank) const;
  Kind kind_of(int link) const { return static_cast<Kind>(link / workers_); }
  // By the workers of an island.
  static bool is_shared(Kind kind) { return kind == kUp || kind == kDown; }
  LinkCost cost_of(int rank) const;  // of a worker
  Time latency_s(int from, int to) const;
  bool is_sending(int link) const;  // the first link of a message
  Transit route(int from, int to, double bytes) const;
  NetworkCost::Link state_of(const Transit& message, int link, Time now) const;
  Time service_s(const Transit& message, int link, double slowdown) const;
  // When a message begins to take a link, for how long, how long later
  // intervals interrupt it, and the link's state at the beginning.
  struct Place {
    Time begin = 0, service = 0, interrupted = 0;
    NetworkCost::Link state = {};
    Time until() const { return begin + (service + interrupted); }
  };
  Place place_of(const Transit& message, int link) const;

  NetworkCost cost_;
  int workers_;
  bool is_at_boundary_ = false;
  std::vector<Link> links_;  // by kind, then by worker, island or server
};

}  // namespace syncopate::inproc
