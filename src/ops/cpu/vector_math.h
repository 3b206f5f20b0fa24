// Functions of sixteen floats at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/cpu/simd.h"

namespace syncopate::cpu {

using I16 = int32_t __attribute__((vector_size(64)));

// exp(high + low), |low| < 0.1: `low` carries the rounding error of a product.
// Within 2 ulp; 0 if high is below -87 (including -inf), +inf above 88.7, NaN
// for NaN.
//
// exp(x) = 2^n exp(r), n = round(x / log 2), |r| <= log(2) / 2, with log 2 in
// two parts such that n times the first is exact (Cody and Waite 1980); the
// minimax polynomial of (exp(r) - 1 - r) / r^2 was found by the Remez
// algorithm.
[[gnu::always_inline]] inline F16 exp(F16 high, F16 low) {
  constexpr float kLog2E = 0x1.715476p+0f;
  constexpr float kLog2High = 0x1.63p-1f;
  constexpr float kLog2Low = -0x1.bd0106p-13f;
  // Adding and subtracting it rounds to an integer, found in the low bits.
  constexpr float kRound = 0x1.8p+23f;
  const F16 shifted = high * kLog2E + kRound;
  const F16 n = shifted - kRound;
  const F16 r = (high - n * kLog2High) - n * kLog2Low + low;
  F16 p = splat(0x1.6a1a72p-10f);
  p = p * r + 0x1.123fc6p-7f;
  p = p * r + 0x1.555916p-5f;
  p = p * r + 0x1.55548ap-3f;
  p = p * r + 0x1.fffffcp-2f;
  p = p * (r * r) + r + 1.0f;
  // Adds n to the exponent; p <= 1 if n = 128.
  const F16 scaled = reinterpret_cast<F16>(
      reinterpret_cast<U16>(p) + (reinterpret_cast<U16>(shifted) << 23));
  const F16 bounded =
      high <= 88.72283f ? scaled : high * __builtin_inff();  // propagates NaN
  return high < -87.0f ? F16{} : bounded;
}

[[gnu::always_inline]] inline F16 exp(F16 x) {
  return exp(x, F16{});
}

// The normal distribution's tail at `distance` from the mean.
struct NormalTail {
  F16 distance;     // |x|, at most 14: beyond, the tail is 0 in fp32
  F16 probability;  // one-sided tail probability
  F16 bell;         // exp(-x^2 / 2): the density times sqrt(2 pi)
};

// With a = |x|: probability = exp(-a^2 / 2) h(a), where h(a) = t P(t), t = 1 /
// (1 + 0.3 a), with relative error 4e-9 on [0, 13.5]: P is the minimax
// polynomial by the Remez algorithm for h(a) = exp(a^2 / 2) erfc(a / sqrt 2) /
// 2. The upper part of the square has 24 bits, so its rounding does not grow to
// a^2 ulp.
[[gnu::always_inline]] inline NormalTail normal_tail(F16 x) {
  const F16 magnitude =
      reinterpret_cast<F16>(reinterpret_cast<U16>(x) & 0x7FFFFFFF);
  const F16 a = magnitude > 14.0f ? splat(14.0f) : magnitude;  // propagates NaN
  const F16 upper = reinterpret_cast<F16>(reinterpret_cast<U16>(a) & ~0xFFFu);
  const F16 bell =
      exp(upper * upper * -0.5f, (a - upper) * (a + upper) * -0.5f);
  const F16 t = 1.0f / (1.0f + 0.3f * a);
  F16 p = splat(-0x1.516c18p-6f);
  p = p * t + 0x1.cbdf0ap-4f;
  p = p * t + -0x1.d291aap-3f;
  p = p * t + 0x1.87a54cp-3f;
  p = p * t + -0x1.435b16p-4f;
  p = p * t + 0x1.88c104p-4f;
  p = p * t + 0x1.417c4p-4f;
  p = p * t + 0x1.c36f06p-4f;
  p = p * t + 0x1.e9c716p-4f;
  p = p * t + 0x1.ea3c7p-4f;
  return {a, bell * (p * t), bell};
}

}  // namespace syncopate::cpu
