// Sequences of tokens in the memory of the test device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "ops/sequences.h"
#include "support/test_device.h"

namespace syncopate::test {

class TokenBatch {
 public:
  explicit TokenBatch(const std::vector<int64_t>& lengths)
      : lengths_(lengths), arrays_(laid_out(lengths)) {}

  const std::vector<int64_t>& lengths() const { return lengths_; }
  int64_t tokens() const {
    return std::accumulate(lengths_.begin(), lengths_.end(), int64_t{0});
  }
  operator Sequences() const {
    const int64_t count = std::ssize(lengths_);
    const int32_t* offsets = arrays_;
    return {.count = count,
            .tokens = tokens(),
            .max_length = *std::ranges::max_element(lengths_),
            .offsets = offsets,
            .sequence = offsets + count + 1,
            .position = offsets + count + 1 + tokens()};
  }

 private:
  // Offsets, then each token's sequence, then each token's position.
  static std::vector<int32_t> laid_out(const std::vector<int64_t>& lengths) {
    std::vector<int32_t> offsets = {0}, sequences, positions;
    for (size_t n = 0; n < lengths.size(); ++n)
      for (int64_t i = 0; i <= lengths[n]; ++i) {
        if (i == lengths[n]) {
          offsets.push_back(static_cast<int32_t>(sequences.size()));
        } else {
          sequences.push_back(static_cast<int32_t>(n));
          positions.push_back(static_cast<int32_t>(i));
        }
      }
    for (const auto& more : {sequences, positions})
      offsets.insert(offsets.end(), more.begin(), more.end());
    return offsets;
  }

  std::vector<int64_t> lengths_;
  DeviceValues<int32_t> arrays_;
};

}  // namespace syncopate::test
