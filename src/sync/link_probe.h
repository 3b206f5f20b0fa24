// Measures how late a worker's messages arrive at others. After handing a
// step's gradients to the transport, a worker sends a probe to some peers and
// times their answers, behind the messages still queued on its link. If its own
// link is slow, every answer is late; a slow link elsewhere delays only some:
// the fastest answer gives the worker's own lateness.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "sync/pace.h"

namespace syncopate {

class LinkProbe {
 public:
  // Among `members`, which include this worker; all of them make these calls.
  LinkProbe(Endpoint& endpoint, Group members);

  void begin(const Segment& segment);  // answers the others from here on
  // Sends a probe to the next peers in turn without waiting. Skipped while
  // earlier probes are unanswered.
  void send();
  // Returns the fastest answer to the last probes. Until there is one: the
  // previous value, or the time since sending if that is longer. nullopt: none
  // in this segment.
  std::optional<double> round_trip_s();
  // Waits for all answers and leaves nothing in flight.
  void quiesce();

 private:
  static constexpr int kPeers = 3;
  struct Probe {
    Task task;
    Time sent_at = 0, answered_at = 0;
  };
  static void serve(Endpoint& endpoint);

  Endpoint& endpoint_;
  Group members_;
  int64_t round_ = 0;  // within the segment
  std::array<Probe, kPeers> probes_;
  int num_sent_ = 0;  // in the last round
  Time round_began_ = 0;
  std::optional<double> last_s_;
  Task service_;
};

}  // namespace syncopate
