// No compression: the baseline for the others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compress/compressor.h"

namespace syncopate {

// Message: D floats.
class Identity : public Compressor {
 public:
  Identity(Context&, const CompressOptions&, const ParameterTable& table)
      : elems_(table.num_elems()) {}
  static int64_t words(const CompressOptions&, const ParameterTable& table) {
    return table.num_elems();
  }

  int64_t elems() const override { return elems_; }
  int64_t message_words() const override { return elems_; }
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
  bool is_unbiased() const override { return true; }

 private:
  int64_t elems_;
};

}  // namespace syncopate
