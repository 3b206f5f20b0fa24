// Central differences against a gradient that was computed by hand-written
// backward code.
//
// Objectives are fp32 networks, so two errors compete: rounding, that falls
// with the step h, and curvature, that grows with it. A direction is therefore
// tried with several steps and the best one counts: a right gradient agrees at
// some step, a wrong one at none. Kinks are worse: a step crosses some h n of
// n ReLUs, and with upstream gradients of random sign the error is of order
// sqrt(h), 2% at h = 3e-4. So tests keep activations away from them
// (keep_off_kinks), and let them be crossed in tests of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace syncopate {

// The objective as a function of values that the check changes in place (and
// restores).
using Objective = std::function<double()>;

// Largest error over `directions` random ones:
//   |difference quotient along d - gradient . d| / max(|gradient|, floor)
// with d_i ~ N(0, 1), so 1 is the size of a typical directional derivative,
// and a tensor whose gradient vanishes by luck along d does not blow the error
// up. The floor is for gradients that vanish by nature: a shift that the next
// BatchNorm takes out again.
double directional_error(std::span<float> values,
                         std::span<const float> gradient,
                         const Objective& objective,
                         int directions = 2,
                         double floor = 0);

// The same element by element, for at most `limit` elements spread over the
// tensor, relative to the root mean square of the gradient.
double elementwise_error(std::span<float> values,
                         std::span<const float> gradient,
                         const Objective& objective,
                         int64_t limit = 40);

// Draws from N(0, 1): the fixed random data of a test.
void fill_normal(std::span<float> values, uint64_t seed);

// gamma and beta such that ReLU behind a BatchNorm passes whole channels, two
// of three, and blocks the others: |gamma xhat| < |beta| = 5.
void keep_off_kinks(std::span<float> gamma, std::span<float> beta);

}  // namespace syncopate
