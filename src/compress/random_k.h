// A random subset of each tensor's elements, drawn anew for each message.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compress/sparse.h"

namespace syncopate {

// Per tensor of d elements. Biased: q equals x where chosen, E|q - x|^2 = (1 -
// k / d) |x|^2. Unbiased: scaled by d / k, E|q - x|^2 = (d / k - 1) |x|^2.
class RandomK : public Sparse {
 public:
  RandomK(Context& context,
          const CompressOptions& options,
          const ParameterTable& table);
  void encode(Context& context,
              std::span<uint32_t> message,
              std::span<const float> x,
              const Draw& draw) override;
  // If unbiased: contractive if more than half of every tensor is kept.
  bool is_contractive() const override { return is_contractive_; }
  bool is_unbiased() const override { return scaling_ == Scaling::kScaled; }

 private:
  Scaling scaling_;
  bool is_contractive_;
};

}  // namespace syncopate
