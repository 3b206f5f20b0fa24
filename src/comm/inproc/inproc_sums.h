// The modelled sums of one in-process run, over links that are alike: by ring,
// butterfly and binary blocks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "comm/inproc/network.h"
#include "comm/inproc/sum_correction.h"
#include "comm/inproc/sum_intervals.h"
#include "comm/inproc/sum_plan.h"
#include "comm/modelled_sums.h"
#include "comm/scheduler.h"

namespace syncopate::inproc {

// Sums follow the messages of every member, which is exact, among up to
// kExactWorld workers. Beyond, rings follow every member for 25 ms and
// otherwise one, now and then all, for SumCorrection, if that takes no more
// than a second. Sums by pairs follow every member as long as those of all
// groups take no more than a second. Otherwise they follow fewer members of
// each block, at least 4 of a group's: kCorrected of the world's, or where all
// take more than some eight seconds as many as a second is enough for, but at
// least kFewestClasses (kFewestOfMany in a world of more than kManyWorkers).
// Where all take less than that, all are now and then followed as well. Under
// Sums::kRough the second is a quarter of one, the least number kFewestRough,
// and nothing is corrected.
inline constexpr int64_t kMostMessages = int64_t{1} << 22;
inline constexpr int64_t kMostCorrected = int64_t{1} << 25;
inline constexpr int64_t kMostRoughMessages = int64_t{1} << 20;
inline constexpr int64_t kMostRingMessages = int64_t{1} << 16;
inline constexpr int64_t kFewestClasses = 256;
inline constexpr int64_t kFewestOfMany = 128;
inline constexpr int64_t kFewestRough = 64;
inline constexpr int64_t kCorrected = 64;
inline constexpr int kManyWorkers = 4096;

class InprocSums final : public ModelledSums {
 public:
  InprocSums(Network& network,
             Scheduler& scheduler,
             std::vector<TrafficCounters>& traffic);

  bool knows(CollectiveAlgorithm algorithm) const override;
  double error() const override { return error_; }
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
  struct Cost {
    struct Sent {
      int64_t bytes = 0, messages = 0;
    };
    std::vector<Sent> sent;        // by position
    int64_t messages = 0;          // of all members
    std::map<int, SumPlan> plans;  // by the number of classes
  };
  // A sum that not all members have entered.
  struct Open {
    Shape shape;
    Cost* cost = nullptr;
    int num_entered = 0;
    std::vector<Time> entered_at;  // by position
  };
  struct GroupSums {
    std::deque<Open> open;             // in order of entering
    int64_t num_complete = 0;          // before those
    std::vector<Open> unsolved;        // complete
    std::vector<int64_t> num_entered;  // by position
  };
  struct Link {
    Ranks members;               // of `group`
    GroupSums* group = nullptr;  // that the worker entered last
    int64_t num_incomplete = 0;
    std::vector<std::pair<Time, Time>> intervals;  // since the last finish()
    bool is_finished = true;
    Time last_entered_at = 0;
    Strand* waiting = nullptr;
  };

  Cost& cost_of(const Shape& shape);
  // How a step's sums are followed: by how many classes of each block, whether
  // SumCorrection corrects that, and the error() that remains.
  struct Following {
    int classes = SumPlan::kEveryMember;
    bool is_corrected = false;
    double error = 0.01;
  };
  Following following(std::span<const Open> sums) const;
  // Since its members last waited, the group has entered these sums and none
  // enters another before all of them have ended.
  void solve(std::span<const Open> sums, Ranks members);
  StepIntervals intervals_of(std::span<const Open> sums, Ranks members);
  StepIntervals followed(std::span<const Open> sums,
                         Ranks members,
                         int classes) const;

  Network& network_;
  Scheduler& scheduler_;
  std::vector<TrafficCounters>& traffic_;
  const std::optional<Network::AlikeLinks> alike_;
  std::map<Ranks, GroupSums> groups_;
  std::map<Shape, Cost> costs_;
  // By the first sum of a step and their number.
  std::map<std::pair<Shape, size_t>, SumCorrection> corrections_;
  std::vector<Link> links_;  // by rank
  double error_ = 0.01;
};

}  // namespace syncopate::inproc
