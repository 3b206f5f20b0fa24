// Clicks of a known model: reproducible in any order of requests, with the
// right probabilities, and learnable.
#include <algorithm>
#include <bit>
#include <cmath>

#include "click_files.h"
#include "data/clicks/auc.h"

namespace syncopate {
namespace {

DataOptions synthetic(int64_t samples, int64_t field_rows) {
  DataOptions options;
  options.kind = "synthetic_criteo";
  options.samples = samples;
  options.test_samples = 20000;
  options.field_rows = field_rows;
  return options;
}

std::vector<int32_t> rows_of(const ClickSet& set, int64_t sample) {
  std::vector<int32_t> rows(kClickFields);
  set.read(sample, rows);
  return rows;
}

double click_rate(const ClickSet& set) {
  const auto clicked = set.clicked();
  return static_cast<double>(std::count(clicked.begin(), clicked.end(), 1)) /
         static_cast<double>(clicked.size());
}

TEST(SyntheticCriteo, HasTheRateAndTheAucThatItSays) {
  for (const int64_t field_rows : {2, 50, 1000, 100000})
    for (const uint64_t seed : {1, 7}) {
      DataOptions options = synthetic(20000, field_rows);
      options.synthetic_seed = seed;
      const ClickData data = load_clicks(options);
      ASSERT_TRUE(data.best_auc.has_value());
      // The model was fitted to 8,192 samples and is measured on 20,000: each
      // contributes an error of about 0.004.
      EXPECT_NEAR(*data.best_auc, 0.80, 0.02);
      EXPECT_NEAR(click_rate(*data.train), 0.25, 0.02);
      EXPECT_NEAR(click_rate(*data.test), 0.25, 0.02);
      EXPECT_EQ(data.spec.fields(), kClickFields);
      for (size_t f = 0; f < kClickFields; ++f)
        EXPECT_EQ(data.spec.rows[f], f < kClickIntegers
                                         ? std::min<int64_t>(field_rows, 40)
                                         : field_rows);
    }
}

TEST(SyntheticCriteo, IsAFunctionOfSeedAndSample) {
  const ClickData data = load_clicks(synthetic(3000, 100));
  const ClickData same = load_clicks(synthetic(3000, 100));
  const ClickData longer = load_clicks(synthetic(40000, 100));
  EXPECT_EQ(data.digest, same.digest);
  EXPECT_NE(data.digest, longer.digest);
  EXPECT_EQ(data.best_auc, longer.best_auc);
  for (int64_t i = 0; i < 3000; ++i) {
    ASSERT_EQ(rows_of(*data.train, i), rows_of(*longer.train, i));
    ASSERT_EQ(data.train->clicked()[static_cast<size_t>(i)],
              longer.train->clicked()[static_cast<size_t>(i)]);
  }
  EXPECT_NE(rows_of(*data.train, 0), rows_of(*data.train, 1));
  EXPECT_NE(rows_of(*data.train, 0), rows_of(*data.test, 0));
  DataOptions options = synthetic(3000, 100);
  options.synthetic_seed = 8;
  const ClickData other = load_clicks(options);
  EXPECT_NE(other.digest, data.digest);
  EXPECT_NE(rows_of(*data.train, 0), rows_of(*other.train, 0));
}

// Popularity falls by octaves, and no row is left out.
TEST(SyntheticCriteo, RowsAreLikeWords) {
  for (const int64_t rows : {2, 3, 4, 37, 64}) {
    const ClickData data = load_clicks(synthetic(30000, rows));
    std::vector<int64_t> counts(static_cast<size_t>(rows));
    for (int64_t i = 0; i < 30000; ++i) {
      const auto drawn = rows_of(*data.train, i);
      for (size_t f = kClickIntegers; f < kClickFields; ++f) {
        ASSERT_TRUE(drawn[f] >= 0 && drawn[f] < rows);
        ++counts[static_cast<size_t>(drawn[f])];
      }
    }
    for (size_t row = 0; row < counts.size(); ++row) {
      EXPECT_GT(counts[row], 0);
      // A row of the octave above, if there is a whole one.
      const size_t next = 2 * row + 1;
      if (2 * std::bit_floor(row + 1) * 2 - 1 <= counts.size()) {
        EXPECT_LT(counts[next], counts[row]);
      }
    }
  }
  // Rows at the end of a large table are drawn too.
  const ClickData data = load_clicks(synthetic(2000, 1 << 24));
  int32_t largest = 0;
  for (int64_t i = 0; i < 2000; ++i)
    for (const int32_t row : rows_of(*data.train, i))
      largest = std::max(largest, row);
  EXPECT_GT(largest, (1 << 24) * 0.9);
  EXPECT_LT(largest, 1 << 24);
}

TEST(SyntheticCriteo, StoresLabelsOnly) {
  const ClickData few = load_clicks(synthetic(1000, 1000));
  const ClickData more = load_clicks(synthetic(101000, 1000));
  EXPECT_EQ(more.train->memory_bytes() - few.train->memory_bytes(), 100000);
  EXPECT_LT(few.train->memory_bytes(), 1 << 20);
}

// Logistic regression, a table of weights by AdaGrad, comes near the best.
TEST(SyntheticCriteo, IsLearnable) {
  constexpr double kRate = 0.04;
  const ClickData data = load_clicks(synthetic(200000, 30));
  ClickBatch sample;
  const auto rows = static_cast<size_t>(data.spec.total_rows());
  std::vector<double> weights(rows), squares(rows, 1e-8);
  double bias = -1;
  const auto score = [&](const ClickSet& set, int64_t i) {
    const std::vector<int64_t> one = {i};
    sample.fill(set, data.spec, one);
    double sum = bias;
    for (const int32_t row : sample.rows)
      sum += weights[static_cast<size_t>(row)];
    return sum;
  };
  for (int64_t i = 0; i < data.train->samples(); ++i) {
    const double p = 1 / (1 + std::exp(-score(*data.train, i)));
    const double gradient = p - sample.labels[0];
    bias -= 0.001 * gradient;
    for (const int32_t row : sample.rows) {
      const auto place = static_cast<size_t>(row);
      squares[place] += gradient * gradient;
      weights[place] -= kRate * gradient / std::sqrt(squares[place]);
    }
  }
  std::vector<float> scores;
  for (int64_t i = 0; i < data.test->samples(); ++i)
    scores.push_back(static_cast<float>(score(*data.test, i)));
  const double auc = area_under_curve(scores, data.test->clicked());
  EXPECT_LT(auc, *data.best_auc);
  EXPECT_GT(auc, *data.best_auc - 0.01);
}

TEST(SyntheticCriteo, RefusesImpossibleOptions) {
  const auto expect_said = [](const DataOptions& options,
                              const std::string& line) {
    expect_error(ExitCode::kBadInput, line, [&] { load_clicks(options); });
  };
  expect_said(synthetic(0, 10), "data.samples: 0, expected at least 1");
  DataOptions options = synthetic(10, 10);
  options.test_samples = 0;
  expect_said(options, "data.test_samples: 0, expected at least 1");
  for (const int64_t rows : {1, (1 << 24) + 1})
    expect_said(
        synthetic(10, rows),
        fmt::format("data.field_rows: {}, expected 2 to 16777216", rows));
  const Error error =
      error_of([] { load_clicks(synthetic(int64_t{1} << 50, 10)); });
  EXPECT_EQ(error.code(), ExitCode::kBadInput);
}

}  // namespace
}  // namespace syncopate
