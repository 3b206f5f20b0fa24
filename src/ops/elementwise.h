// Element-wise passes over whole tensors or flat ranges.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "ops/context.h"

namespace syncopate {

// y = x + z, all of the same activation dtype; y may alias either input.
void add(Context& context, Tensor y, ConstTensor x, ConstTensor z);

// Copies values to another layout or dtype (fp32, bf16). Must not alias.
void reorder(Context& context, Tensor to, ConstTensor from);

// C rounded up to a multiple of eight: 16 bytes of bf16, as tensor cores and
// packs need them.
inline int64_t padded_channels(int64_t C) {
  return (C + 7) / 8 * 8;
}

// Copies images to bf16 with more channels, which become zeros. Must not alias.
void pad_channels(Context& context,
                  Tensor y,        // (N, padded_channels(C), H, W) bf16 NHWC
                  ConstTensor x);  // (N, C, H, W) fp32 NHWC

// y += a * x over fp32 ranges.
void axpy(Context& context,
          std::span<float> y,
          float a,
          std::span<const float> x);
// y *= a
void scale(Context& context, std::span<float> y, float a);
// y *= *a, where `a` is in the context's memory (clip_factor).
void scale_by(Context& context, std::span<float> y, const float* a);

// Inverted dropout: y = keep ? x / (1 - p) : 0, where keep of element i is
// drawn from Philox (seed ^ salt, kDropout, first_sample + n, i), with n along
// the first dimension and i in the sample's memory order. It does not depend on
// the batch that contains the sample. Backward is dropout of dy with forward's
// arguments. y may alias x. `key` is in the context's memory, so recorded work
// draws anew each time it runs.
struct DropoutKey {
  uint64_t seed;
  uint64_t first_sample;  // among all samples of the run, in the order drawn
};
void dropout(Context& context,
             Tensor y,
             ConstTensor x,
             float p,
             const DropoutKey* key,
             uint64_t salt);
// *to = key, where `to` is in the context's memory.
void store_dropout_key(Context& context, DropoutKey* to, const DropoutKey& key);

}  // namespace syncopate
