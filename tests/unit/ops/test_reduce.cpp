#include "ops/reduce.h"

#include <cmath>

#include "cpu_fixture.h"
#include "support/guarded_tensor.h"
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
  Cpu cpu, one(1), three(3);
  for (const int64_t n : kSizes) {
    const auto x = floats(n, 1), y = floats(n, 2);
    long double squares = 0, product = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      squares += static_cast<long double>(x[i]) * x[i];
      product += static_cast<long double>(x[i]) * y[i];
    }
    // A lane adds 1024 products of a chunk, each sum rounded to 53 bits.
    const auto bound = static_cast<double>(squares) * 1024 * 0x1.0p-53;
    const double got = dot(cpu.context, x, y);
    EXPECT_NEAR(sum_of_squares(cpu.context, x), static_cast<double>(squares),
                bound);
    EXPECT_NEAR(got, static_cast<double>(product), bound);
    EXPECT_EQ(dot(one.context, x, y), got);
    EXPECT_EQ(dot(three.context, x, y), got);
  }
}

// Far beyond what fp32 could hold together.
TEST(Reduce, HugeAndSmallTogether) {
  Cpu cpu;
  std::vector<float> x(1000, 1.0f), y(1000, 1.0f);
  x[0] = 1e15f;
  x[999] = -1e15f;
  EXPECT_EQ(dot(cpu.context, x, y), 998);
}

TEST(Reduce, FirstNonfinite) {
  Cpu cpu;
  const float inf = std::numeric_limits<float>::infinity();
  for (const int64_t n : kSizes) {
    auto x = floats(n, 1);
    EXPECT_EQ(first_nonfinite(cpu.context, x), -1);
    if (n == 0) continue;
    x[static_cast<size_t>(n / 2)] = std::numeric_limits<float>::max();
    EXPECT_EQ(first_nonfinite(cpu.context, x), -1);
    x.back() = std::nanf("");
    EXPECT_EQ(first_nonfinite(cpu.context, x), n - 1);
    x[static_cast<size_t>(n / 3)] = -inf;
    EXPECT_EQ(first_nonfinite(cpu.context, x), n / 3);
    x[0] = inf;
    EXPECT_EQ(first_nonfinite(cpu.context, x), 0);
  }
}

}  // namespace
}  // namespace syncopate
