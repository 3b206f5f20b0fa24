// Passes over whole tensors or flat ranges, element by element.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "ops/context.h"

namespace syncopate {

// y = x + z. Any dtype of the activations, alike; y may alias either.
void add(Context& context, Tensor y, ConstTensor x, ConstTensor z);

// The same values in another layout or dtype (fp32, bf16). No aliasing.
void reorder(Context& context, Tensor to, ConstTensor from);

// y += a * x over fp32 ranges.
void axpy(Context& context,
          std::span<float> y,
          float a,
          std::span<const float> x);
// y *= a
void scale(Context& context, std::span<float> y, float a);
// y *= *a, where `a` lies in the context's memory (clip_factor).
void scale_by(Context& context, std::span<float> y, const float* a);

// Inverted dropout: y = keep ? x / (1 - p) : 0, where keep of element i is
// drawn from Philox (seed ^ salt, kDropout, first_sample + n, i), n along the
// first dimension and i as the sample lies in memory: it does not depend on
// the batch that a sample comes in. Backward is dropout of dy with the
// arguments of forward. y may alias x. `key` lies in the context's memory, so
// that recorded work draws anew each time it runs.
struct DropoutKey {
  uint64_t seed;
  uint64_t first_sample;  // of all samples of the run, as they are drawn
};
void dropout(Context& context,
             Tensor y,
             ConstTensor x,
             float p,
             const DropoutKey* key,
             uint64_t salt);
// *to = key, where `to` lies in the context's memory.
void store_dropout_key(Context& context, DropoutKey* to, const DropoutKey& key);

}  // namespace syncopate
