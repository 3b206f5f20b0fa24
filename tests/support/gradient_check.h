// Compares gradients of hand-written backward code with central differences.
//
// Objectives are fp32 networks, so two errors compete: rounding, which falls
// with the step h, and curvature, which grows with it. A direction is therefore
// tried with several steps and the best one counts: a correct gradient agrees
// at some step, a wrong one at none. Kinks are worse: a step crosses some h n
// of n ReLUs, and with upstream gradients of random sign the error is of order
// sqrt(h), 2% at h = 3e-4. Tests therefore keep activations away from kinks
// (keep_off_kinks), and cross them in tests of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace syncopate {

// The objective as a function of values that the check changes in place and
// restores.
using Objective = std::function<double()>;

// Returns the largest error over `directions` random directions:
//   |difference quotient along d - gradient . d| / max(|gradient|, floor)
// with d_i ~ N(0, 1), so 1 is the size of a typical directional derivative, and
// a tensor whose gradient happens to vanish along d does not inflate the error.
// The floor is for gradients that vanish by nature, such as for a shift that
// the next BatchNorm removes.
double directional_error(std::span<float> values,
                         std::span<const float> gradient,
                         const Objective& objective,
                         int directions = 2,
                         double floor = 0);

// Does the same element by element, for at most `limit` elements spread over
// the tensor, relative to the root mean square of the gradient.
double elementwise_error(std::span<float> values,
                         std::span<const float> gradient,
                         const Objective& objective,
                         int64_t limit = 40);

// Checks every element of a gradient in double precision against the central
// difference with this step, to `tolerance`.
void expect_derivative(std::vector<double>& values,
                       const std::vector<double>& gradient,
                       const Objective& objective,
                       double step,
                       double tolerance);

// Fills with fixed random test data from N(0, 1).
void fill_normal(std::span<float> values, uint64_t seed);

// Sets gamma and beta such that ReLU after a BatchNorm passes two of three
// channels entirely and blocks the others: |gamma xhat| < |beta| = 5.
void keep_off_kinks(std::span<float> gamma, std::span<float> beta);

}  // namespace syncopate
