// The area under the curve against a count of all pairs, against scikit-learn
// (tests/reference/make_auc_fixtures.py), and in parts.
#include "data/clicks/auc.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <sstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "support/fixtures.h"

namespace syncopate {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr uint64_t kAll = uint64_t{1} << 32;

struct Samples {
  std::vector<float> scores;
  std::vector<uint8_t> positive;
};

double count_of_pairs(const Samples& samples) {
  double wins = 0, pairs = 0;
  for (size_t i = 0; i < samples.scores.size(); ++i) {
    for (size_t j = 0; j < samples.scores.size(); ++j) {
      if (samples.positive[i] == 0 || samples.positive[j] != 0) continue;
      const float mine = samples.scores[i], theirs = samples.scores[j];
      wins += mine > theirs ? 1 : mine == theirs ? 0.5 : 0;
      pairs += 1;
    }
  }
  return wins / pairs;
}

// Scores of all sizes and signs, the edges of float with them.
Samples random_samples(size_t count, uint32_t different, std::mt19937& random) {
  const float edges[] = {0.0f, -0.0f, kInfinity, -kInfinity, 1e-45f, -1e-45f};
  Samples samples;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t level = random() % different;
    samples.scores.push_back(
        level < 6 ? edges[level]
                  : std::ldexp(static_cast<float>(level) - 20.5f,
                               static_cast<int>(level % 200) - 100));
    samples.positive.push_back(random() % 3 == 0 ? 1 + random() % 2 : 0);
  }
  return samples;
}

TEST(Auc, IsTheCountOfPairs) {
  std::mt19937 random(2);
  int64_t defined = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const Samples samples =
        random_samples(1 + random() % 60, 1 + random() % 40, random);
    const double expected = count_of_pairs(samples);
    const double value = area_under_curve(samples.scores, samples.positive);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value));
    } else {
      EXPECT_EQ(value, expected);
      ++defined;
    }
  }
  EXPECT_GT(defined, 200);
}

TEST(Auc, EdgesOfTheDefinition) {
  using Labels = std::vector<uint8_t>;
  const auto auc = [](std::vector<float> scores, const Labels& positive) {
    return area_under_curve(scores, positive);
  };
  EXPECT_EQ(auc({1, 2}, {0, 1}), 1);
  EXPECT_EQ(auc({1, 2}, {1, 0}), 0);
  EXPECT_EQ(auc({2, 2}, {1, 0}), 0.5);
  EXPECT_EQ(auc({0.0f, -0.0f}, {1, 0}), 0.5);
  EXPECT_EQ(auc({-kInfinity, kInfinity, 0}, {0, 1, 0}), 1);
  EXPECT_TRUE(std::isnan(auc({}, {})));
  EXPECT_TRUE(std::isnan(auc({1, 2}, {1, 1})));
  EXPECT_TRUE(std::isnan(auc({1, 2}, {0, 0})));
  EXPECT_TRUE(std::isnan(auc({1, kNan, 2}, {0, 1, 1})));
  EXPECT_FALSE(SortedScores({1}, {1}).has_nan());
  EXPECT_TRUE(SortedScores({-kNan}, {1}).has_nan());
}

Samples made(int64_t samples,
             int64_t different,
             int64_t share,
             int64_t follow) {
  Samples result;
  for (int64_t i = 0; i < samples; ++i) {
    const auto at = static_cast<uint64_t>(i);
    const auto draw = [&](uint64_t stream, int64_t below) {
      return static_cast<int64_t>(made_bits(stream, at)) % below;
    };
    const int64_t level = draw(1, different);
    int64_t threshold = share;
    if (draw(2, 256) < follow) threshold = 2 * level >= different ? 230 : 25;
    result.scores.push_back(static_cast<float>(level - different / 2) / 64);
    result.positive.push_back(draw(3, 256) < threshold);
  }
  return result;
}

TEST(Auc, AndLogLossAreThoseOfScikitLearn) {
  std::istringstream lines(read_file(fixture_path("auc.txt")));
  int cases = 0;
  int64_t samples, different, share, follow;
  std::string auc, loss;
  while (lines >> samples >> different >> share >> follow >> auc >> loss) {
    const Samples of = made(samples, different, share, follow);
    // It adds trapezia of rates and takes logarithms of rounded probabilities.
    EXPECT_NEAR(area_under_curve(of.scores, of.positive),
                std::strtod(auc.c_str(), nullptr), 1e-12);
    const double expected = std::strtod(loss.c_str(), nullptr);
    EXPECT_NEAR(log_loss(of.scores, of.positive), expected, 1e-9 * expected);
    ++cases;
  }
  EXPECT_EQ(cases, 10);
}

TEST(Auc, LogLossOfSureAnswersIsFinite) {
  const auto loss = [](float logit, uint8_t positive) {
    return log_loss(std::span(&logit, 1), std::span(&positive, 1));
  };
  EXPECT_EQ(loss(0, 1), std::log(2.0));
  EXPECT_EQ(loss(1000, 0), 1000);
  EXPECT_EQ(loss(-1000, 1), 1000);
  EXPECT_EQ(loss(-1000, 0), 0);
  EXPECT_NEAR(loss(50, 1), 1.9287498479639178e-22, 1e-36);  // exp(-50)
  EXPECT_TRUE(std::isnan(loss(kNan, 1)));
}

// Samples dealt to workers, scores merged by `parts` ranges.
double merged(const Samples& samples, size_t workers, int parts) {
  std::vector<Samples> dealt(workers);
  for (size_t i = 0; i < samples.scores.size(); ++i) {
    Samples& to = dealt[i * i % workers];
    to.scores.push_back(samples.scores[i]);
    to.positive.push_back(samples.positive[i]);
  }
  std::vector<SortedScores> sorted;
  for (Samples& of : dealt) sorted.emplace_back(of.scores, of.positive);
  AucSum sum;
  int64_t seen = 0;
  for (int part = 0; part < parts; ++part) {
    std::vector<SortedScores::Entry> entries;
    for (size_t worker = workers; worker-- > 0;) {  // in any order
      const auto of_worker =
          sorted[worker].entries(SortedScores::part_begin(part, parts),
                                 SortedScores::part_begin(part + 1, parts));
      int64_t count = 0;
      for (const auto& entry : of_worker)
        count += int64_t{entry.negative} + entry.positive;
      EXPECT_EQ(count,
                sorted[worker].histogram(parts)[static_cast<size_t>(part)]);
      seen += count;
      entries.insert(entries.end(), of_worker.begin(), of_worker.end());
    }
    sum.add(std::move(entries));
  }
  EXPECT_EQ(seen, std::ssize(samples.scores));
  return sum.value();
}

TEST(Auc, InPartsIsTheWholeToTheBit) {
  std::mt19937 random(6);
  for (int trial = 0; trial < 60; ++trial) {
    const Samples samples = random_samples(
        30 + random() % 500, trial % 2 == 0 ? 12 : 100000, random);
    const double whole = area_under_curve(samples.scores, samples.positive);
    ASSERT_FALSE(std::isnan(whole));
    for (const size_t workers : {1, 3, 4})
      for (const int parts : {1, 3, 7, 64, 1000})
        EXPECT_EQ(std::bit_cast<uint64_t>(merged(samples, workers, parts)),
                  std::bit_cast<uint64_t>(whole));
  }
}

TEST(Auc, EntriesRiseAndCountEverySampleOnce) {
  const SortedScores sorted({3, -1, 3, -0.0f, 0, -kInfinity, kNan, 3},
                            {1, 0, 0, 1, 1, 0, 1, 1});
  const auto entries = sorted.entries(0, kAll);
  ASSERT_EQ(entries.size(), 4u);
  const uint32_t negative[] = {1, 1, 0, 1}, positive[] = {0, 0, 2, 2};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(entries[i].negative, negative[i]) << i;
    EXPECT_EQ(entries[i].positive, positive[i]) << i;
    EXPECT_TRUE(i == 0 || entries[i].ordered > entries[i - 1].ordered) << i;
  }
  const uint64_t last = entries[3].ordered;
  EXPECT_EQ(sorted.entries(0, last).size(), 3u);
  EXPECT_EQ(sorted.entries(last, last + 1).size(), 1u);
  EXPECT_TRUE(sorted.entries(last + 1, kAll).empty());
  EXPECT_EQ(SortedScores::part_begin(0, 7), 0u);
  EXPECT_EQ(SortedScores::part_begin(7, 7), kAll);
}

TEST(Auc, RangesOutOfOrderAreOurMistake) {
  const SortedScores sorted({1, 2}, {0, 1});
  AucSum sum;
  sum.add(sorted.entries(0, kAll));
  EXPECT_THROW(sum.add(sorted.entries(0, kAll)), Error);
}

}  // namespace
}  // namespace syncopate
