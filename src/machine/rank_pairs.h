// Arranges the ranks of a job in rounds of disjoint pairs that can be measured
// at the same time; over all rounds, every two ranks meet once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace syncopate {

// If several hosts each have the same number (more than one) of consecutive
// ranks, pairs between hosts and pairs inside a host have separate rounds.
// Otherwise all rounds count as between hosts.
class RankPairs {
 public:
  // `hosts`: of each rank, as Endpoint::host_of() numbers them.
  explicit RankPairs(std::span<const int> hosts);

  int per_host() const { return per_host_; }  // 1: hosts are not told apart
  int rounds_between() const;
  int rounds_inside() const;

  // Returns the rank with which `rank` is paired in a round, counted from 0, or
  // -1 if it sits out.
  int between(int rank, int round) const;
  int inside(int rank, int round) const;

 private:
  int hosts() const { return ranks_ / per_host_; }
  int ranks_, per_host_;
};

}  // namespace syncopate
