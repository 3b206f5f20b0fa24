// The modelled sums of one in-process run, for rings over links that are alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "comm/inproc/network.h"
#include "comm/modelled_sums.h"
#include "comm/scheduler.h"

namespace syncopate::inproc {

// When a ring all-reduce (comm/ring.h) over links that are alike ends for each
// member, if member p begins at begin[p] and nothing else is on the links.
//
// Message i of a member leaves at
//   D_p(i) = max(D_p(i-1) + s, A_p(i - ahead)),
//   A_p(i) = D_{p-1}(i) + s + latency,
// where s is the time that the message occupies a link: a recursion over all
// 2 N (N-1) messages. With chunks of one size and of one segment it is solved
// in O(N): a phase ends for member p at
//   (N-1) s + max_k (begin[p-k] + k latency), k = 0 .. N-1.
// That is what `is_exact = false` uses for chunks of one segment, as if all had
// the size of the largest, which is an element more than that of others.
std::vector<Time> ring_ends(const Network::AlikeLinks& links,
                            int64_t elems,
                            Wire wire,
                            bool is_exact,
                            std::span<const Time> begin);
inline constexpr int kExactWorld = 256;  // up to so many workers

class InprocSums final : public ModelledSums {
 public:
  InprocSums(Network& network,
             Scheduler& scheduler,
             std::vector<TrafficCounters>& traffic);

  bool knows(CollectiveAlgorithm algorithm) const override;
  void enter(const Group& group,
             Time at,
             int64_t elems,
             CollectiveAlgorithm algorithm,
             Wire wire,
             Traffic kind) override;
  Times finish() override;

 private:
  // A sum that not all members have entered.
  struct Open {
    int64_t elems = 0;
    Wire wire = Wire::kF32;
    int num_entered = 0;
    std::vector<Time> entered_at;  // by position
  };
  struct GroupSums {
    std::deque<Open> open;             // in order of entering
    int64_t num_solved = 0;            // before those
    std::vector<int64_t> num_entered;  // by position
  };
  // A sum that all members have entered, on the link of one of them.
  struct UnderWay {
    int64_t number = 0;   // of this worker's sums
    double messages = 0;  // that it has yet to send
    Time message_s = 0;   // that each occupies the link
    Time alone_s = 0;     // from one to the next if the link is free
    Time entered_at = 0;
    // If it has the link for itself, it proceeds without waiting from
    // begins_at on and ends at ends_alone_at.
    Time begins_at = 0, ends_alone_at = 0;
    bool has_shared = false;
  };
  struct Link {
    Ranks members;               // of `group`
    GroupSums* group = nullptr;  // that the worker entered last
    int64_t num_unsolved = 0, num_given = 0;
    int num_under_way = 0;
    std::array<UnderWay, kAtOnce> under_way;
    Time now = 0;  // until when those have been followed
    std::array<Time, kAtOnce> ended_at{};          // by number % kAtOnce
    std::vector<std::pair<Time, Time>> intervals;  // since the last finish()
    bool is_finished = true;
    Time last_entered_at = 0;
    Strand* waiting = nullptr;
  };

  std::vector<Time> ends_of(int64_t elems,
                            Wire wire,
                            std::span<const Time> begin) const;
  void solve(const Open& sum, const Group& group);
  // How long a sum takes whose members begin together.
  Time duration_s(int num_members, int64_t elems, Wire wire);
  void end_next(int rank);

  Network& network_;
  Scheduler& scheduler_;
  std::vector<TrafficCounters>& traffic_;
  const std::optional<Network::AlikeLinks> alike_;
  std::map<Ranks, GroupSums> groups_;
  std::map<std::tuple<int, int64_t, Wire>, Time> durations_;
  std::vector<Link> links_;  // by rank
};

}  // namespace syncopate::inproc
