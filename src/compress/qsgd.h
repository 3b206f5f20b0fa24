// Stochastic rounding to levels of the tensor's norm (QSGD, Alistarh et al.
// 2017).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compress/compressor.h"

namespace syncopate {

// Message: 1 + bits_of_level(levels) bits per element, then one norm per
// tensor.
//
// For d elements and s levels, with omega = min(d / s^2, sqrt(d) / s):
// E|q - x|^2 <= omega |x|^2, and if biased, that is, scaled by 1 / (1 + omega),
// <= omega / (1 + omega) |x|^2.
class Qsgd : public Compressor {
 public:
  Qsgd(Context& context,
       const CompressOptions& options,
       const ParameterTable& table);
  static int64_t words(const CompressOptions& options,
                       const ParameterTable& table);

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
  // If unbiased: contractive if omega < 1 for every tensor.
  bool is_contractive() const override { return is_contractive_; }
  bool is_unbiased() const override { return !params_.is_biased; }

 private:
  Segments segments_;
  QsgdParams params_;
  int64_t words_;
  size_t packed_;  // words before the norms
  bool is_contractive_;
};

}  // namespace syncopate
