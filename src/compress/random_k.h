// Some elements of each tensor, chosen anew at random for each message.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compress/sparse.h"

namespace syncopate {

// Biased: q is x where chosen, E|q - x|^2 = (1 - k / d) |x|^2 by tensor of d
// elements. Unbiased: times d / k, E|q - x|^2 = (d / k - 1) |x|^2.
class RandomK : public Sparse {
 public:
  RandomK(Context& context,
          const CompressOptions& options,
          const ParameterTable& table);
  void encode(Context& context,
              std::span<uint32_t> message,
              std::span<const float> x,
              const Draw& draw) override;
  // Unbiased: where more than half of every tensor is kept.
  bool is_contractive() const override { return is_contractive_; }
  bool is_unbiased() const override { return scaling_ == Scaling::kScaled; }

 private:
  Scaling scaling_;
  bool is_contractive_;
};

}  // namespace syncopate
