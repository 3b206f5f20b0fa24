// Keeps the elements of each tensor with the largest magnitudes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compress/sparse.h"

namespace syncopate {

// |q - x|^2 <= (1 - k / d) |x|^2 per tensor of d elements.
class TopK : public Sparse {
 public:
  using Sparse::Sparse;
  void encode(Context& context,
              std::span<uint32_t> message,
              std::span<const float> x,
              const Draw& draw) override;
  bool is_contractive() const override { return true; }
  bool is_unbiased() const override { return false; }
};

}  // namespace syncopate
