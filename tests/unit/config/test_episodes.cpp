// stragglers.episodes: what the grammar means, and what it refuses.
// SPDX-License-Identifier: Apache-2.0
#include "config/episodes.h"

#include <gtest/gtest.h>

#include <numeric>

namespace syncopate {
namespace {

constexpr auto kCompute = Episode::Kind::kCompute;
constexpr auto kLink = Episode::Kind::kLink;

double added(const Episodes& episodes,
             Episode::Kind kind,
             int rank,
             double now,
             int64_t step = 0) {
  return episodes.at(kind, rank, now, step).added_s;
}

// Scenario 2 of Sync-Switch: 30 ms on two network cards, four times 94 s.
TEST(Episodes, RepeatsOnTheLinksOfSomeWorkers) {
  const Episodes episodes(
      {"6+7:link:+30ms:from=10s:for=94s:every=110s:count=4"}, 8, 1);
  EXPECT_TRUE(episodes.has(kLink));
  EXPECT_FALSE(episodes.has(kCompute));
  for (int repetition = 0; repetition < 4; ++repetition) {
    const double begin = 10 + 110 * repetition;
    for (const int rank : {6, 7}) {
      EXPECT_EQ(added(episodes, kLink, rank, begin - 0.01), 0);
      EXPECT_DOUBLE_EQ(added(episodes, kLink, rank, begin), 0.03);
      EXPECT_DOUBLE_EQ(added(episodes, kLink, rank, begin + 93.99), 0.03);
      EXPECT_EQ(added(episodes, kLink, rank, begin + 94), 0);
    }
    EXPECT_EQ(added(episodes, kLink, 5, begin), 0);
    EXPECT_EQ(added(episodes, kCompute, 6, begin), 0);
  }
  EXPECT_EQ(added(episodes, kLink, 6, 10 + 110 * 4), 0);
}

// Times are sums of step times: three steps of 0.2 s from 0.3 s on end at
// 0.8999999999999999 s.
TEST(Episodes, EndsWhereASumOfTimesDoes) {
  const Episodes episodes({"0:compute:x2:from=300ms:until=900ms"}, 1, 1);
  const auto times = [&](double now) {
    return episodes.at(Episode::Kind::kCompute, 0, now, 0).times;
  };
  const double end = 0.3 + 0.2 + 0.2 + 0.2;
  ASSERT_LT(end, 0.9);
  EXPECT_EQ(times(end), 1);
  EXPECT_EQ(times(0.1 + 0.2), 2);
  EXPECT_EQ(times(0.89), 2);
  EXPECT_EQ(times(0.29), 1);

  const Episodes late({"0:compute:x2:from=7000s:until=7000.1s"}, 1, 1);
  double begin = 0;
  for (int step = 0; step < 10'000; ++step) begin += 0.7;
  ASSERT_LT(begin, 7000 - 1e-9);
  EXPECT_EQ(late.at(Episode::Kind::kCompute, 0, begin, 0).times, 2);
}

TEST(Episodes, CountsTheWorkersOwnSteps) {
  const Episodes episodes({"1:compute:x1.5:from=200steps:until=300steps"}, 2,
                          1);
  for (const auto& [step, times] :
       {std::pair<int64_t, double>{199, 1}, {200, 1.5}, {299, 1.5}, {300, 1}})
    EXPECT_EQ(episodes.at(kCompute, 1, 1e6, step).times, times) << step;
  EXPECT_EQ(episodes.at(kCompute, 0, 0, 250).times, 1);
}

TEST(Episodes, AddUpWhereTheyOverlap) {
  const Episodes episodes(
      {"all:compute:x2", "0-2:compute:x3", "1:compute:+10ms", "1:compute:+5ms"},
      4, 1);
  EXPECT_DOUBLE_EQ(episodes.at(kCompute, 1, 5, 5).times, 6);
  EXPECT_DOUBLE_EQ(episodes.at(kCompute, 1, 5, 5).added_s, 0.015);
  EXPECT_DOUBLE_EQ(episodes.at(kCompute, 3, 5, 5).times, 2);
}

// Every period holds one whole repetition, whose moment differs between
// periods and seeds.
TEST(Episodes, AtRandomStaysWithinItsPeriod) {
  std::vector<double> begins;
  for (const uint64_t seed : {1, 2}) {
    const Episodes episodes({"0:compute:+1s:for=10s:every=100s:at=random"}, 1,
                            seed);
    for (int period = 0; period < 50; ++period) {
      double seconds = 0, begin = -1;
      for (int tenth = 0; tenth < 1000; ++tenth) {
        const double now = 100 * period + 0.1 * tenth;
        if (added(episodes, kCompute, 0, now) == 0) continue;
        if (begin < 0) begin = 0.1 * tenth;
        seconds += 0.1;
      }
      EXPECT_NEAR(seconds, 10, 0.11);
      EXPECT_LE(begin, 90);
      begins.push_back(begin);
    }
  }
  const double mean = std::accumulate(begins.begin(), begins.end(), 0.0) / 100;
  // Uniform over 90 s: the mean of 100 has a deviation of 2.6 s.
  EXPECT_NEAR(mean, 45, 10);
  EXPECT_NE(begins[0], begins[1]);
  EXPECT_NE(begins[0], begins[50]);
}

TEST(Episodes, DrawsWorkersForEachRepetition) {
  const Episodes episodes({"any2:link:+1s:for=1s:every=1s"}, 8, 3);
  std::vector<int> times(8, 0);
  for (int repetition = 0; repetition < 400; ++repetition) {
    int slow = 0;
    for (int rank = 0; rank < 8; ++rank) {
      const bool is_slow = added(episodes, kLink, rank, repetition + 0.5) > 0;
      slow += is_slow ? 1 : 0;
      times[rank] += is_slow ? 1 : 0;
    }
    EXPECT_EQ(slow, 2);
  }
  // Binomial (400, 1/4): 100, deviation 8.7.
  for (const int count : times) EXPECT_NEAR(count, 100, 44);
}

TEST(Episodes, RefuseWhatMeansNothing) {
  const auto mistake = [](const std::string& text, int64_t workers = 8) {
    return episodes_mistake({text}, workers);
  };
  EXPECT_EQ(mistake("7:link:x4:from=5s"), "");
  EXPECT_EQ(mistake("0-3+7:compute:+10ms:from=5steps:for=2steps:every=4steps"),
            "");
  EXPECT_EQ(mistake("9:compute:x2", 0), "");
  EXPECT_EQ(mistake("7:pause:+5s:for=1steps"), "");
  for (const auto& [text, what] :
       {std::pair<std::string, std::string>{"7:link", "WORKERS:KIND:AMOUNT"},
        {"8:link:x4", "not a rank of 8"},
        {"any9:link:x4", "any9 draws more than all 8 workers"},
        {"any0:link:x4", "ranks"},
        {"3-1:link:x4", "ranks"},
        {"7:disk:x4", "compute, link or pause"},
        {"7:pause:x4", "length of a pause"},
        {"7:link:x0.5", "at least 1"},
        {"7:link:4", "at least 1"},
        {"7:link:+30", "+30ms"},
        {"7:link:+3steps", "+30ms"},
        {"7:link:x4:for=3", "TIME"},
        {"7:link:x4:for=1.5steps", "TIME"},
        {"7:link:x4:from=3s:from=4s", "twice"},
        {"7:link:x4:from=3s:for=4steps", "partly"},
        {"7:link:x4:for=3s:until=4s", "both"},
        {"7:link:x4:from=5s:until=4s", "until > from"},
        {"7:link:x4:for=0s", "for > 0"},
        {"7:link:x4:every=4s", "needs for"},
        {"7:link:x4:for=5s:every=4s", "has ended"},
        {"7:link:x4:for=5s:count=4", "need every"},
        {"7:link:x4:for=5s:every=9s:count=0", "N >= 1"},
        {"7:link:x4:for=5s:every=9s:at=noon", "at=random"},
        {"7:link:x4:when=5s", "unknown"}})
    EXPECT_NE(mistake(text).find(what), std::string::npos)
        << text << " -> " << mistake(text);
}

}  // namespace
}  // namespace syncopate
