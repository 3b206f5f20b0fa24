// Naive selection of a few elements of each tensor, by sorting all of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace syncopate::reference {

// Returns the indices, ascending, of the kept[t] elements with the largest keys
// of each tensor t, [begins[t], begins[t + 1]); ties go to the lowest index.
std::vector<uint32_t> select(const std::vector<uint64_t>& keys,
                             const std::vector<int64_t>& begins,
                             const std::vector<int64_t>& kept);

}  // namespace syncopate::reference
