// Converts checkpoints of earlier format versions; only this file knows the
// names that they used.
//
//   version 1 -> 2
//     momentum, m, v      one range without its tensors; read unchanged by
//                         load.cpp, since only the model knows its tensors
//     s, xhat (choco)     c = s - xhat minus its mean over the workers, which
//                         is the rounding error that version 1 accumulated
//                         and would move the mean of all models at every step
//     stragglers/         the last window's steps and their number: kept is the
//       step_s, observed  window's result, but nothing of a window in progress
//     tensors             no shapes: all are (elements)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace syncopate {

// One file's datasets by name.
using NamedState = std::map<std::string,
                            std::variant<std::vector<float>,
                                         std::vector<double>,
                                         std::vector<int64_t>>>;

// Converts in place. Error(kBadInput) if related parts are inconsistent.
void convert_from_version_1(NamedState& state);

// Subtracts from choco's c its mean over `workers`, whose c add up to `sums`.
void remove_mean(std::vector<float>& c,
                 const std::vector<double>& sums,
                 int workers);

// Whether state did not exist in version 1, or in the first files of version 2,
// and so keeps its initial value.
bool is_unknown_to_version_1(std::string_view name);
bool is_younger_than_version_2(std::string_view name);

}  // namespace syncopate
