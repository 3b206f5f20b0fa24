// What checkpoints of earlier format versions mean today: the one place that
// knows the names they used.
//
//   version 1 -> 2
//     momentum, m, v      one range without its tensors; read as it is by
//                         load.cpp, since only the model knows its tensors
//     s, xhat (choco)     c = s - xhat less its mean over the workers, which is
//                         the rounding error that version 1 piled up and which
//                         would move the mean of all models at every step
//     stragglers/         the last window's steps and how many: what the window
//       step_s, observed  gave, and nothing of the window under way
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

// In place. Error(kBadInput) where parts of one thing do not fit together.
void convert_from_version_1(NamedState& state);

// What is left of choco's c for each of `workers`, whose c add up to `sums`.
void remove_mean(std::vector<float>& c,
                 const std::vector<double>& sums,
                 int workers);

// State that came later: where version 1 lacks it, it has its first value.
bool is_unknown_to_version_1(std::string_view name);

}  // namespace syncopate
