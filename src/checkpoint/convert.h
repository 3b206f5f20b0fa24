// What checkpoints of earlier format versions mean today: the one place that
// knows the names they used.
//
//   version 1 -> 2
//     momentum, m, v      one range without its tensors; read as it is by
//                         load.cpp, since only the model knows its tensors
//     s, xhat (choco)     c = s - xhat, and xhat
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

// State that came later: where version 1 lacks it, it has its first value.
bool is_unknown_to_version_1(std::string_view name);

}  // namespace syncopate
