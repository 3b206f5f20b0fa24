#include "ops/reduce.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/rng.h"
#include "support/guarded_tensor.h"
#include "support/test_device.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

// Around vectors of 16 and chunks of 16384.
constexpr int64_t kSizes[] = {0, 1, 15, 17, 16383, 16384, 16401, 100003};

std::vector<float> floats(int64_t count, uint64_t seed) {
  const auto values = random_values(count, seed);
  return {values.begin(), values.end()};
}

TEST(Reduce, SumsInDouble) {
  TestContext test, one(1), three(3);
  for (const int64_t n : kSizes) {
    const auto x = floats(n, 1), y = floats(n, 2);
    long double squares = 0, product = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      squares += static_cast<long double>(x[i]) * x[i];
      product += static_cast<long double>(x[i]) * y[i];
    }
    const DeviceValues<float> d_x(x), d_y(y);
    // A lane adds at most 1024 products, each sum rounded to 53 bits.
    const auto bound = static_cast<double>(squares) * 1024 * 0x1.0p-53;
    const double got = dot(test.context, d_x.span(), d_y.span());
    EXPECT_NEAR(dot(test.context, d_x.span(), d_x.span()),
                static_cast<double>(squares), bound);
    EXPECT_NEAR(got, static_cast<double>(product), bound);
    EXPECT_EQ(dot(one.context, d_x.span(), d_y.span()), got);
    EXPECT_EQ(dot(three.context, d_x.span(), d_y.span()), got);
  }
}

// It does not depend on the start of the range either.
TEST(Reduce, ASliceHasTheBitsOfTheSameValuesElsewhere) {
  TestContext test;
  const int64_t n = 20000;
  const auto x = floats(n, 1);
  const DeviceValues<float> d_x(x);
  const double expected = dot(test.context, d_x.span(), d_x.span());
  for (const size_t shift : {1, 2, 3}) {
    const DeviceValues<float> d_shifted(moved_by(shift, std::nanf(""), x));
    const auto slice = d_shifted.span().subspan(shift);
    EXPECT_EQ(dot(test.context, slice, slice), expected);
    EXPECT_EQ(dot(test.context, d_x.span(), slice), expected);
    EXPECT_EQ(first_nonfinite(test.context, slice), -1);
    EXPECT_EQ(first_nonfinite(test.context, slice.first(16)), -1);
    EXPECT_EQ(first_nonfinite(test.context, d_shifted.span()), 0);
  }
}

// More chunks than the largest grid has blocks. Small integers: any order of
// summation gives the same.
TEST(Reduce, MoreChunksThanBlocks) {
  TestContext test;
  const int64_t n = int64_t{2048} * 8192 + 8192 * 3 + 5;
  std::vector<float> x(static_cast<size_t>(n));
  int64_t expected = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i % 7);
    expected += static_cast<int64_t>(i % 7 * (i % 7));
  }
  const DeviceValues<float> d_x(x);
  EXPECT_EQ(dot(test.context, d_x.span(), d_x.span()),
            static_cast<double>(expected));
}

// Far beyond what fp32 could hold together.
TEST(Reduce, HugeAndSmallTogether) {
  TestContext test;
  std::vector<float> x(1000, 1.0f), y(1000, 1.0f);
  x[0] = 1e15f;
  x[999] = -1e15f;
  const DeviceValues<float> d_x(x), d_y(y);
  EXPECT_EQ(dot(test.context, d_x.span(), d_y.span()), 998);
}

TEST(Reduce, FirstNonfinite) {
  TestContext test;
  const float inf = std::numeric_limits<float>::infinity();
  const auto first_of = [&](const std::vector<float>& x) {
    const DeviceValues<float> d_x(x);
    return first_nonfinite(test.context, d_x.span());
  };
  for (const int64_t n : kSizes) {
    auto x = floats(n, 1);
    EXPECT_EQ(first_of(x), -1);
    if (n == 0) continue;
    x[static_cast<size_t>(n / 2)] = std::numeric_limits<float>::max();
    EXPECT_EQ(first_of(x), -1);
    x.back() = std::nanf("");
    EXPECT_EQ(first_of(x), n - 1);
    x[static_cast<size_t>(n / 3)] = -inf;
    EXPECT_EQ(first_of(x), n / 3);
    x[0] = inf;
    EXPECT_EQ(first_of(x), 0);
  }
}

// The definition, evaluated for one value after the other.
uint64_t naive_digest(const std::vector<float>& x) {
  uint64_t sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    uint64_t word = uint64_t{i} << 32 | std::bit_cast<uint32_t>(x[i]);
    for (const int shift : {32, 29}) {
      word ^= word >> shift;
      word *= kDigestFactor;
    }
    sum += word ^ (word >> 32);
  }
  return sum;
}

TEST(Reduce, DigestIsTheSameForAllThreadsAndSlices) {
  TestContext test, one(1), three(3);
  for (const int64_t n : kSizes)
    for (const size_t shift : {0, 1, 3}) {
      const auto x = floats(n, 7);
      const DeviceValues<float> d_x(moved_by(shift, 1.0f, x));
      const auto slice = d_x.span().subspan(shift);
      for (TestContext* context : {&test, &one, &three})
        EXPECT_EQ(digest(context->context, slice), naive_digest(x)) << n;
    }
}

// Any single bit matters, and so do the positions of values.
TEST(Reduce, DigestTellsFlippedBitsAndSwappedValues) {
  TestContext test;
  const auto x = floats(16401, 8);
  const DeviceValues<float> d_x(x);
  const uint64_t whole = digest(test.context, d_x.span());
  const auto digest_of = [&](const std::vector<float>& values) {
    const DeviceValues<float> d_values(values);
    return digest(test.context, d_values.span());
  };
  Rng rng(1, Purpose::kTest, 0);
  for (int trial = 0; trial < 100; ++trial) {
    auto flipped = x;
    float& value = flipped[rng.next_u32() % x.size()];
    value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^
                                 1u << rng.next_u32() % 32);
    EXPECT_NE(digest_of(flipped), whole);
  }
  auto swapped = x;
  std::swap(swapped[3], swapped[16400]);
  EXPECT_NE(digest_of(swapped), whole);
}

float clip(TestContext& test,
           const std::vector<float>& gradient,
           double scale,
           double limit) {
  const DeviceValues<float> d_gradient(gradient), factor(-1.0f);
  clip_factor(test.context, factor, d_gradient.span(), scale, limit);
  return factor.get(test.context)[0];
}

TEST(Reduce, ClipFactorFollowsItsFormula) {
  TestContext test;
  for (const int64_t n : kSizes) {
    const auto gradient = floats(n, 1);
    long double squares = 0;
    for (const float value : gradient)
      squares += static_cast<long double>(value) * value;
    const double norm = 0.25 * std::sqrt(static_cast<double>(squares));
    for (const double limit : {0.001, 1.0, 1e6}) {
      const double expected = std::min(1.0, limit / (norm + 1e-6));
      EXPECT_TRUE(is_within(clip(test, gradient, 0.25, limit), expected,
                            {0, 1.01 * kEpsilonF32}));
    }
  }
}

TEST(Reduce, ClipFactorOfWhatIsNotFinite) {
  TestContext test;
  for (const int64_t n : {3, 20000}) {
    auto gradient = floats(n, 1);
    gradient.back() = -std::numeric_limits<float>::infinity();
    EXPECT_EQ(clip(test, gradient, 1, 1), 0);
    gradient[1] = std::nanf("");
    EXPECT_TRUE(std::isnan(clip(test, gradient, 1, 1)));
  }
  // The squares of finite numbers do not overflow.
  const std::vector<float> large(100, 3e38f);
  EXPECT_TRUE(is_within(clip(test, large, 1, 3e38), 0.1, {0, 1e-6}));
}

}  // namespace
}  // namespace syncopate
