// Attention in bf16 on tensor cores, with fp32 sums.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ops/attention.h"

namespace syncopate::cuda {

// Whether the functions below accept the arguments: bf16, heads of a multiple
// of 16 columns, memory aligned to 16 bytes. If backward is, so was forward.
bool can_use_mma(const AttentionForwardArgs& args);
bool can_use_mma(const AttentionBackwardArgs& args);

void attention_forward_mma(Context& context, const AttentionForwardArgs& args);

// `delta` (T, heads) in the context's memory: sums of dout * out over a head.
void attention_backward_mma(Context& context,
                            const AttentionBackwardArgs& args,
                            const float* delta);

}  // namespace syncopate::cuda
