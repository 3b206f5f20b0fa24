#include "ops/cpu/vector_math.h"

#include <array>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace syncopate::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Sixteen at a time, as they are computed. Vectors are passed by reference
// because returning them has another ABI on each processor, which the compiler
// warns of.
template <typename Function>
std::array<float, kLanes> of_lanes(const std::array<float, kLanes>& x,
                                   const Function& function) {
  std::array<float, kLanes> y;
  const F16 in = load(x.data());
  F16 out;
  function(in, out);
  store(y.data(), out);
  return y;
}

double unit_at(double value) {
  const auto rounded = static_cast<float>(value);
  return static_cast<double>(std::nextafterf(rounded, kInf)) -
         static_cast<double>(rounded);
}

TEST(VectorMath, ExpIsWithinTwoUnits) {
  std::array<float, kLanes> x;
  double worst = 0;
  for (float first = -87; first <= 88.7f; first += 0.01f) {
    for (size_t lane = 0; lane < x.size(); ++lane)
      x[lane] = std::min(88.7f, first + static_cast<float>(lane) * 0.000625f);
    const auto y = of_lanes(x, [](const F16& v, F16& r) { r = exp(v); });
    for (size_t lane = 0; lane < x.size(); ++lane) {
      const double expected = std::exp(static_cast<double>(x[lane]));
      const double error = std::abs(static_cast<double>(y[lane]) - expected);
      worst = std::max(worst, error / unit_at(expected));
    }
  }
  EXPECT_LT(worst, 2);
  EXPECT_GT(worst, 0.5);  // correct rounding of all values is implausible
}

TEST(VectorMath, ExpAtItsEnds) {
  const auto y = of_lanes({-kInf, -1e30f, -100, -87.01f, 0, -0.0f, 88.73f, 100,
                           1e30f, kInf, NAN, 1, -1, 1e-20f, 88.7f, -87},
                          [](const F16& v, F16& r) { r = exp(v); });
  for (const size_t lane : {0, 1, 2, 3}) EXPECT_EQ(y[lane], 0);
  for (const size_t lane : {4, 5, 13}) EXPECT_EQ(y[lane], 1);
  for (const size_t lane : {6, 7, 8, 9}) EXPECT_EQ(y[lane], kInf);
  EXPECT_TRUE(std::isnan(y[10]));
  EXPECT_TRUE(std::isfinite(y[14]));
  EXPECT_GT(y[15], 0);
}

TEST(VectorMath, NormalTailFollowsErfc) {
  std::array<float, kLanes> x;
  for (float first = -13.1f; first < 13.1f; first += 0.005f) {
    for (size_t lane = 0; lane < x.size(); ++lane)
      x[lane] = first + static_cast<float>(lane) * 0.0003f;
    const auto tail = of_lanes(
        x, [](const F16& v, F16& r) { r = normal_tail(v).probability; });
    const auto bell =
        of_lanes(x, [](const F16& v, F16& r) { r = normal_tail(v).bell; });
    for (size_t lane = 0; lane < x.size(); ++lane) {
      const auto at = static_cast<double>(x[lane]);
      const double expected_tail = std::erfc(std::abs(at) / std::sqrt(2)) / 2;
      const double expected_bell = std::exp(-at * at / 2);
      // Some rounding errors of 2^-24, for every x.
      EXPECT_NEAR(tail[lane], expected_tail,
                  6 * 0x1p-24 * expected_tail + 0x1p-149)
          << at;
      EXPECT_NEAR(bell[lane], expected_bell, 4 * 0x1p-24 * expected_bell) << at;
    }
  }
}

}  // namespace
}  // namespace syncopate::cpu
