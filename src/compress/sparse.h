// Base of top_k and random_k: a subset of the coordinates, in messages that
// hold their values and indices.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compress/compressor.h"
#include "ops/select.h"

namespace syncopate {

// Message: the kept values of all tensors as floats, then their indices.
class Sparse : public Compressor {
 public:
  Sparse(Context& context,
         const CompressOptions& options,
         const ParameterTable& table);
  static int64_t words(const CompressOptions& options,
                       const ParameterTable& table);

  int64_t message_words() const override { return 2 * selection_.total(); }
  void blend(Context& context,
             std::span<float> y,
             std::span<const uint32_t> message,
             float a,
             float b) override;
  bool is_sparse() const override { return true; }

 protected:
  std::span<float> values(std::span<uint32_t> message) const;
  std::span<uint32_t> places(std::span<uint32_t> message) const;

  const Segments& segments_;
  const Selection selection_;
};

}  // namespace syncopate
