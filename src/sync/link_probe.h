// Measures how late a worker's messages arrive at others. When it begins a
// step, and little is on the links, a worker sends probes to some peers,
// several in turn to each, and times their answers. If its own link is slow,
// every answer is late; a slow link elsewhere, or other messages on the way,
// delay only some: the fastest answer of the last rounds gives the worker's own
// lateness.
// (Behind a step's gradients, where a probe waits for others' messages, equal
// workers would differ by whole messages, the same ones in every step.)
//
// In virtual time a probe is as long as a message of a ring all-reduce, without
// its values. Under MPI it is short, so that it measures latency only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <optional>
#include <vector>

#include "sync/pace.h"

namespace syncopate {

class LinkProbe {
 public:
  // Among `members`, which include this worker; all of them make these calls.
  // Their messages have `chunk_bytes`.
  LinkProbe(Endpoint& endpoint, Group members, int64_t chunk_bytes);

  void begin(const Segment& segment);  // answers the others from here on
  // Begins to send probes to the next peers in turn, without waiting. Skipped
  // while earlier ones are unanswered.
  void send();
  // Returns the fastest answer of the last kRounds rounds. Until the last round
  // has one, the time since it began, if that is longer. nullopt: none in this
  // segment.
  std::optional<double> round_trip_s();
  // Waits for all answers and leaves nothing in flight.
  void quiesce();

 private:
  static constexpr int kPeers = 3;
  static constexpr int kPings = 4;  // to a peer, each after the last answer
  // Where a message takes longer than a step's computation, those of a round
  // may all meet gradients.
  static constexpr int kRounds = 3;
  struct Probe {
    Task task;
    // Infinite: none was answered. Under MPI, tasks are on another thread.
    std::atomic<Time> fastest_s = 0;
  };
  static void serve(Endpoint& endpoint);
  static void ping(Endpoint& endpoint,
                   int index,
                   int peer,
                   int64_t chunk_bytes);

  Endpoint& endpoint_;
  Group members_;
  int64_t chunk_bytes_;  // 0: not sent
  int64_t round_ = 0;    // within the segment
  std::array<Probe, kPeers> probes_;
  int num_sent_ = 0;  // in the last round
  Time round_began_ = 0;
  std::array<double, kRounds> recent_s_{};  // infinite: unanswered
  Task service_;
};

}  // namespace syncopate
