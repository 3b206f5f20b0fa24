// Turns a range of values into fewer bytes, really fewer, and back.
//
// A message holds one range of whole tensors; what it costs does not depend on
// the values. Ranges and messages lie in the memory of the context's device.
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
  double ratio = 0.9;         // top_k, random_k: the share that is dropped
  int64_t bits = 8;           // qsgd: levels = 2^bits - 1
  int64_t levels = 0;         // qsgd: instead of bits; 0: by bits
  bool biased = false;        // qsgd, random_k: scaled to be a contraction
};

class Compressor {
 public:
  virtual ~Compressor() = default;

  // Elements of the range, and 32-bit words of a message.
  virtual int64_t elems() const = 0;
  virtual int64_t message_words() const = 0;

  // message <- x. `draw` decides all randomness: (seed, worker, step).
  virtual void encode(Context& context,
                      std::span<uint32_t> message,
                      std::span<const float> x,
                      const Draw& draw) = 0;

  // y = a * y + b * q on the coordinates that the message holds (all of them,
  // or top_k's and random_k's choice); others stay as they are. a == 0
  // assigns.
  virtual void blend(Context& context,
                     std::span<float> y,
                     std::span<const uint32_t> message,
                     float a,
                     float b) = 0;

  // The message holds a choice of coordinates.
  virtual bool is_sparse() const = 0;
  // |q - x|^2 <= (1 - delta) |x|^2 in expectation with some delta > 0, so that
  // error feedback and CHOCO converge.
  virtual bool is_contractive() const = 0;
  // The expectation of q is x.
  virtual bool is_unbiased() const = 0;

  // q = what the message says: zero elsewhere.
  void decode(Context& context,
              std::span<float> q,
              std::span<const uint32_t> message);
};

// For ranges in the order of `table`. Error(kBadInput) for options that do not
// fit (ratio 1, no such kind).
std::unique_ptr<Compressor> make_compressor(Context& context,
                                            const CompressOptions& options,
                                            const ParameterTable& table);

// Payload bytes of a message, without a device: for plans and `list`.
int64_t message_bytes(const CompressOptions& options,
                      const ParameterTable& table);

// Keyword and one line: `list compressors`, keys, and the contract tests.
const std::vector<std::pair<std::string, std::string>>& compressor_table();
std::vector<Key> compressor_keys();  // of [compress]

}  // namespace syncopate
