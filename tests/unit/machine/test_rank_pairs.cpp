#include "machine/rank_pairs.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

namespace syncopate {
namespace {

std::vector<int> hosts_of(int hosts, int per_host) {
  std::vector<int> all;
  for (int rank = 0; rank < hosts * per_host; ++rank)
    all.push_back(rank / per_host);
  return all;
}

// Every rank meets every other one once, in pairs that are disjoint; those of
// one host in rounds of their own.
TEST(RankPairs, EveryRankMeetsEveryOtherOnce) {
  for (const int hosts : {2, 3, 4, 7, 8})
    for (const int per_host : {1, 2, 3, 4, 5}) {
      const RankPairs pairs(hosts_of(hosts, per_host));
      ASSERT_EQ(pairs.per_host(), per_host);
      const int ranks = hosts * per_host;
      std::set<std::pair<int, int>> met;
      const auto meet = [&](int rank, int other, bool is_inside) {
        if (other < 0) return;
        EXPECT_NE(rank, other);
        EXPECT_EQ(rank / per_host == other / per_host, is_inside);
        EXPECT_TRUE(met.emplace(rank, other).second);
      };
      for (int rank = 0; rank < ranks; ++rank) {
        for (int round = 0; round < pairs.rounds_between(); ++round) {
          const int other = pairs.between(rank, round);
          meet(rank, other, false);
          if (other >= 0) {
            EXPECT_EQ(pairs.between(other, round), rank);
          }
        }
        for (int round = 0; round < pairs.rounds_inside(); ++round) {
          const int other = pairs.inside(rank, round);
          meet(rank, other, true);
          if (other >= 0) {
            EXPECT_EQ(pairs.inside(other, round), rank);
          }
        }
      }
      EXPECT_EQ(std::ssize(met), ranks * (ranks - 1));
    }
}

TEST(RankPairs, HostsOfUnlikeOrScatteredRanksAreNotToldApart) {
  const std::vector<std::vector<int>> layouts = {
      {0, 0, 0, 0},        // one host
      {0, 1, 2},           // a host each
      {0, 0, 1},           // unlike numbers
      {0, 1, 0, 1},        // in turns
      {0, 0, 1, 1, 0, 0},  // comes back
      {0, 0, 1, 2},        // a pair, and two single ones
  };
  for (const std::vector<int>& hosts : layouts) {
    const RankPairs pairs(hosts);
    EXPECT_EQ(pairs.per_host(), 1);
    EXPECT_EQ(pairs.rounds_inside(), 0);
    EXPECT_EQ(pairs.rounds_between(), std::ssize(hosts) % 2 == 0
                                          ? std::ssize(hosts) - 1
                                          : std::ssize(hosts));
  }
}

}  // namespace
}  // namespace syncopate
