// How late a worker's messages come to others. After a step's gradients were
// handed to the transport, a worker sends a word to some others and times
// their answers, behind the messages that its link still has to carry. A slow
// link of its own delays every answer, a slow link elsewhere only some: the
// fastest answer is the worker's own lateness.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "sync/pace.h"

namespace syncopate {

class LinkProbe {
 public:
  // Among `members`, which hold this worker; all of them make these calls.
  LinkProbe(Endpoint& endpoint, std::vector<int> members);

  void begin(const Segment& segment);  // answers the others from here on
  // Sends a word to the next peers in turn; nothing waits. Skipped while the
  // words before have not all been answered.
  void send();
  // The fastest answer to the last words. While there is none: the one before,
  // or the time since then if that is longer. nullopt: none in this segment.
  std::optional<double> round_trip_s();
  // Waits for all answers and leaves nothing in flight.
  void quiesce();

 private:
  static constexpr int kPeers = 3;
  struct Word {
    Task task;
    Time sent_at = 0, answered_at = 0;
  };
  void serve(Endpoint& endpoint) const;

  Endpoint& endpoint_;
  std::vector<int> members_;
  int position_;
  int64_t round_ = 0;  // of the segment
  std::array<Word, kPeers> words_;
  int num_sent_ = 0;  // of the last round
  Time round_began_ = 0;
  std::optional<double> last_s_;
  Task service_;
};

}  // namespace syncopate
