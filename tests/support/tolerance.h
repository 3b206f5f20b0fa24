// Tolerances: every comparison states its bound, and a NaN is never within it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <gtest/gtest.h>

#include "tensor/tensor.h"

namespace syncopate::test {

// |actual - expected| <= absolute + relative * |expected|
struct Tolerance {
  double absolute = 0;
  double relative = 0;
};

inline constexpr double kEpsilonF32 = 0x1.0p-24;  // half a unit of fp32
inline constexpr double kEpsilonBf16 = 0x1.0p-8;  // half a unit of bf16

// The relative error of a result that is rounded once, when it is stored.
inline double epsilon_of(DType dtype) {
  return dtype == DType::kBf16 ? kEpsilonBf16 : kEpsilonF32;
}

bool is_within(double actual, double expected, const Tolerance& tolerance);

// Reports the worst failing element and the number of failures.
testing::AssertionResult all_near(const std::vector<double>& actual,
                                  const std::vector<double>& expected,
                                  const Tolerance& tolerance);

double largest_magnitude(const std::vector<double>& values);

}  // namespace syncopate::test
