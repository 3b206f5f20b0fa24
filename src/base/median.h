// The median of repeated measurements.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace syncopate {

// Of an even number of values, the mean of the two in the middle.
inline double median(std::vector<double> values) {
  CHECK(!values.empty());
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace syncopate
