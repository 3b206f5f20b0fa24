// Compresses a range of values into a shorter message and decodes it again.
//
// A message holds one range of whole tensors, and its size does not depend on
// the values. Ranges and messages are in the memory of the context's device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ops/context.h"
#include "ops/quantize.h"
#include "tensor/parameter_table.h"

namespace syncopate {

struct Key;

struct CompressOptions {
  std::string kind = "sign";  // identity sign top_k random_k qsgd
  double ratio = 0.9;         // top_k, random_k: the fraction dropped
  int64_t bits = 8;           // qsgd: levels = 2^bits - 1
  int64_t levels = 0;         // qsgd: overrides bits; 0: from bits
  bool biased = false;        // qsgd, random_k: scale to a contraction
};

class Compressor {
 public:
  virtual ~Compressor() = default;

  virtual int64_t message_words() const = 0;  // of 32 bits

  // message <- x. `draw` determines all randomness: (seed, worker, step).
  virtual void encode(Context& context,
                      std::span<uint32_t> message,
                      std::span<const float> x,
                      const Draw& draw) = 0;

  // y = a * y + b * q on the coordinates that the message holds (all of them,
  // or the selection of top_k and random_k); others are unchanged. a == 0
  // assigns.
  virtual void blend(Context& context,
                     std::span<float> y,
                     std::span<const uint32_t> message,
                     float a,
                     float b) = 0;

  // Whether the message holds a subset of the coordinates.
  virtual bool is_sparse() const = 0;

  // Assigns b * q from the message, with zeros elsewhere.
  void decode(Context& context,
              std::span<float> q,
              std::span<const uint32_t> message,
              float b = 1) {
    if (is_sparse())
      context.device().fill_zero(q.data(), static_cast<int64_t>(q.size_bytes()),
                                 context.stream());
    blend(context, q, message, 0, b);
  }
};

// For ranges in the order of `table`. Error(kBadInput) for invalid options
// (ratio 1, an unknown kind).
std::unique_ptr<Compressor> make_compressor(Context& context,
                                            const CompressOptions& options,
                                            const ParameterTable& table);

// Returns the payload bytes of a message without a device, for plans and
// `list`.
int64_t message_bytes(const CompressOptions& options,
                      const ParameterTable& table);

// Keyword and one-line description, for `list compressors`, keys and tests.
const std::vector<std::pair<std::string, std::string>>& compressor_table();
std::vector<Key> compressor_keys();  // of [compress]

}  // namespace syncopate
