// In which rounds the ranks of a job form pairs, so that every rank meets every
// other one once and all pairs of a round can be measured at the same time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace syncopate {

// Pairs between hosts and inside a host are in rounds of their own if each of
// several hosts has the same number of successive ranks, more than one.
// Otherwise all rounds count as between hosts.
class RankPairs {
 public:
  // `hosts`: of each rank, as Endpoint::host_of() numbers them.
  explicit RankPairs(std::span<const int> hosts);

  int ranks() const { return ranks_; }
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
