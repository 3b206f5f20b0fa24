#include "ops/nonfinite.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "support/guarded_tensor.h"
#include "support/test_device.h"

namespace syncopate {
namespace {

using namespace test;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// Around vectors of 16 and chunks of 16384.
constexpr int64_t kSizes[] = {1, 15, 17, 16383, 16384, 16401, 100003};

std::vector<float> floats(int64_t count, uint64_t seed) {
  const auto values = random_values(count, seed);
  return {values.begin(), values.end()};
}

// The result of the op on a slice of `values` that begins at `begin`; values
// before and after it must not change.
struct Outcome {
  std::vector<float> values;
  int64_t found;
};
Outcome withhold(const std::vector<float>& values,
                 int64_t found_before,
                 int64_t offset,
                 int64_t begin,
                 int threads = 2) {
  TestContext test(threads);
  auto padded = moved_by(static_cast<size_t>(begin), kNan, values);
  padded.push_back(kInf);
  const DeviceValues<float> memory(padded);
  const DeviceValues<int64_t> found(found_before);
  withhold_nonfinite(
      test.context,
      memory.span().subspan(static_cast<size_t>(begin), values.size()), found,
      offset);
  std::vector<float> after = memory.get(test.context);
  EXPECT_EQ(after.back(), kInf);
  for (int64_t i = 0; i < begin; ++i)
    EXPECT_TRUE(std::isnan(after[static_cast<size_t>(i)]));
  return {{after.begin() + begin, after.end() - 1}, found.get(test.context)[0]};
}

bool all_zero(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(),
                     [](float value) { return value == 0; });
}

TEST(Nonfinite, WhatIsFiniteStays) {
  for (const int64_t n : kSizes)
    for (const int64_t begin : {0, 1, 3}) {
      std::vector<float> values = floats(n, 1);
      values[0] = std::numeric_limits<float>::max();
      values[static_cast<size_t>(n / 2)] = -std::numeric_limits<float>::max();
      const Outcome got = withhold(values, -1, 1000, begin);
      EXPECT_EQ(got.values, values);
      EXPECT_EQ(got.found, -1);
    }
}

TEST(Nonfinite, OneValueAnywhereIsFoundAndAllBecomesZero) {
  for (const int64_t n : kSizes)
    for (const float bad : {kNan, kInf, -kInf})
      for (const int64_t at : {int64_t{0}, n / 3, n - 1}) {
        std::vector<float> values = floats(n, 1);
        values[static_cast<size_t>(at)] = bad;
        for (const int threads : {1, 3}) {
          const Outcome got = withhold(values, -1, 70, n % 3, threads);
          EXPECT_EQ(got.found, 70 + at) << n;
          EXPECT_TRUE(all_zero(got.values)) << n;
        }
      }
}

// Names the last position within a range, and the first of several ranges in
// falling order.
TEST(Nonfinite, NamesWhatBackwardMetFirst) {
  std::vector<float> values = floats(40000, 1);
  for (const size_t at : {5, 6, 17000, 39001}) values[at] = kNan;
  EXPECT_EQ(withhold(values, -1, 100, 0).found, 100 + 39001);
  const Outcome later = withhold(values, 123456, 100, 0);
  EXPECT_EQ(later.found, 123456);
  EXPECT_TRUE(all_zero(later.values));
}

TEST(Nonfinite, WhatFollowsAFindingBecomesZero) {
  const Outcome got = withhold(floats(5000, 2), 0, 0, 1);
  EXPECT_EQ(got.found, 0);
  EXPECT_TRUE(all_zero(got.values));
}

TEST(Nonfinite, RestoresOnlyAfterAFinding) {
  TestContext test;
  for (const int64_t n : {0, 1, 17, 8193}) {
    const std::vector<float> now = floats(n, 1), saved = floats(n, 2);
    for (const int64_t finding : {-1, 0, 99}) {
      const DeviceValues<float> values(now), copy(saved);
      const DeviceValues<int64_t> found(finding);
      restore_withheld(test.context, values.span(), copy.span(), found);
      EXPECT_EQ(values.get(test.context), finding < 0 ? now : saved);
      EXPECT_EQ(copy.get(test.context), saved);
    }
  }
}

}  // namespace
}  // namespace syncopate
