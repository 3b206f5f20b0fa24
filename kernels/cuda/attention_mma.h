// Attention in bf16 on tensor cores, with fp32 sums.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ops/attention.h"

namespace syncopate::cuda {

// Whether attention's arguments are of bf16, with heads of a multiple of 16
// columns and memory at multiples of 16 bytes: what the functions below need.
bool can_use_mma(const AttentionForwardArgs& args);
bool can_use_mma(const AttentionBackwardArgs& args);

void attention_forward_mma(Context& context, const AttentionForwardArgs& args);

// `delta` (T, heads) in the context's memory: sums of dout * out over a head.
void attention_backward_mma(Context& context,
                            const AttentionBackwardArgs& args,
                            const float* delta);

}  // namespace syncopate::cuda
