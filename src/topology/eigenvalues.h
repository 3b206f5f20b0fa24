// The largest |eigenvalue| of a small symmetric matrix.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace syncopate {

// `matrix` is (n, n). Accurate to about 1e-14 of its largest row sum. O(n^3).
double spectral_radius(const std::vector<double>& matrix, int n);

}  // namespace syncopate
