// Sums over fp32 ranges with a result that does not depend on the number of
// threads: fixed chunks, combined in index order, in double.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "ops/context.h"

namespace syncopate {

double sum_of_squares(Context& context, std::span<const float> x);
double dot(Context& context,
           std::span<const float> x,
           std::span<const float> y);
// Index of the first NaN or infinity, or -1.
int64_t first_nonfinite(Context& context, std::span<const float> x);

}  // namespace syncopate
