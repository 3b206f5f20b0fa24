// A few elements of each tensor, chosen the naive way: by sorting all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace syncopate::reference {

// Indices, ascending, of the kept[t] elements of largest key of each tensor t,
// which is [begins[t], begins[t + 1]); of equal keys those of lowest index.
std::vector<uint32_t> select(const std::vector<uint64_t>& keys,
                             const std::vector<int64_t>& begins,
                             const std::vector<int64_t>& kept);

}  // namespace syncopate::reference
