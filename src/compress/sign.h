// One bit per element and the mean magnitude per tensor (Karimireddy et al.
// 2019, "Error Feedback Fixes SignSGD").
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compress/compressor.h"

namespace syncopate {

// q = sign(x) |x|_1 / d per tensor of d elements, with sign(0) = 1.
// Message: packed_words(D, 1) words of signs, then one scale per tensor.
// |q - x|^2 = |x|^2 - |x|_1^2 / d: a contraction for every x except 0.
class Sign : public Compressor {
 public:
  Sign(Context& context,
       const CompressOptions& options,
       const ParameterTable& table);
  static int64_t words(const CompressOptions&, const ParameterTable& table) {
    return packed_words(table.num_elems(), 1) + table.num_tensors();
  }

  int64_t elems() const override { return segments_.num_elems(); }
  int64_t message_words() const override { return words_; }
  void encode(Context& context,
              std::span<uint32_t> message,
              std::span<const float> x,
              const Draw& draw) override;
  void blend(Context& context,
             std::span<float> y,
             std::span<const uint32_t> message,
             float a,
             float b) override;
  bool is_sparse() const override { return false; }
  bool is_contractive() const override { return true; }
  bool is_unbiased() const override { return false; }

 private:
  Segments segments_;
  int64_t words_;
  size_t packed_;  // words before the scales
};

}  // namespace syncopate
