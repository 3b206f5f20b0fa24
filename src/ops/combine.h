// Linear combinations of flat ranges in one pass, and DC-ASGD's correction of a
// gradient.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <span>

#include "ops/context.h"

namespace syncopate {

struct Term {
  float factor;
  std::span<const float> values;
};

// y = sum of factor * values, one to four terms of y's length; y may be
// (exactly) any of them. Terms are added in the given order with fma, so every
// device rounds alike.
void combine(Context& context,
             std::span<float> y,
             std::initializer_list<Term> terms);

// Assigns g = g + lambda * g * g * (x - backup), element by element: Zheng et
// al. 2017 (DC-ASGD), eq. 10.
void compensate(Context& context,
                std::span<float> g,
                std::span<const float> x,
                std::span<const float> backup,
                float lambda);

// y = y + factor * unit * n, with n the integer nearest to x / unit (ties to
// even), element by element; `unit` is a power of two. Since -x gives -n, what
// one worker adds and another subtracts cancels exactly as long as the sums are
// exact: while y is a multiple of unit and |y| <= 2^24 unit.
void add_in_units(Context& context,
                  std::span<float> y,
                  int factor,
                  std::span<const float> x,
                  float unit);

// Orthonormalises the columns of p (rows, rank), row-major, in place by
// modified Gram-Schmidt in column order (Vogels et al. 2019, PowerSGD). A
// column whose remaining norm is below 1e-8 of its initial norm becomes zero.
// Sums use fixed chunks: the result does not depend on the number of threads.
void orthonormalize(Context& context,
                    std::span<float> p,
                    int64_t rows,
                    int64_t rank);

}  // namespace syncopate
