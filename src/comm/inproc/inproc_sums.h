// The modelled sums of one in-process run, over links that are alike: by ring,
// butterfly and binary blocks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <compare>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "comm/inproc/exchange_ends.h"
#include "comm/inproc/network.h"
#include "comm/modelled_sums.h"
#include "comm/scheduler.h"

namespace syncopate::inproc {

// Sums are computed message by message, which is exact, up to so many workers.
// Beyond, exchanges between pairs are if nothing else is on the links and their
// messages are few enough (1 s).
inline constexpr int kExactWorld = 256;
// Sums by exchanges between pairs are rather sent than computed among up to so
// many workers: that takes a minute for a large network, and how long sums take
// that share links is only known within 12%.
inline constexpr int kSentWorld = 64;
inline constexpr int64_t kExactMessages = int64_t{1} << 22;

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
  // What sums have in common of as many members, elements and so on.
  struct Shape {
    int num_members = 0;
    int64_t elems = 0;
    CollectiveAlgorithm algorithm{};
    Wire wire{};
    auto operator<=>(const Shape&) const = default;
  };
  // Messages that a member sends and receives at one rate.
  struct Phase {
    double messages = 0;
    Time out_s = 0, in_s = 0;  // that each occupies the outgoing, incoming link
    Time alone_s = 0;          // from one to the next if the links are free
  };
  struct Cost {
    struct Sent {
      int64_t bytes = 0, messages = 0;
    };
    std::vector<Sent> sent;  // by position
    int64_t messages = 0;    // of all members
    Time duration_s = 0;     // if the members begin together
    // Of the member that sends most, for exchanges between pairs; the others
    // wait for it.
    std::vector<Phase> phases;
  };
  // A sum that not all members have entered.
  struct Open {
    Shape shape;
    const Cost* cost = nullptr;
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
    int64_t number = 0;  // of this worker's sums
    Phase phase;         // what is left of it
    std::span<const Phase> further = {};
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

  enum class Others : uint8_t { kNone, kOnLinks };  // sums
  std::vector<Time> ends_of(const Shape& shape,
                            int64_t messages,
                            Others others,
                            std::span<const Time> begin);
  const Cost& cost_of(const Shape& shape);
  std::vector<Phase> phases_of(const Shape& shape, Time duration_s) const;
  void solve(const Open& sum, const Group& group);
  void end_next(int rank);

  Network& network_;
  Scheduler& scheduler_;
  std::vector<TrafficCounters>& traffic_;
  const std::optional<Network::AlikeLinks> alike_;
  std::map<Ranks, GroupSums> groups_;
  std::map<Shape, Cost> costs_;
  // By algorithm and number of members.
  std::map<std::pair<CollectiveAlgorithm, int>, ExchangeOrder> orders_;
  std::vector<Link> links_;  // by rank
};

}  // namespace syncopate::inproc
