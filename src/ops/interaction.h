// Factorisation machine over looked-up rows (Rendle 2010), with the first-order
// term, and the rows themselves as input for a parallel network (Guo et al.
// 2017, "DeepFM"): one pass over the rows of a batch.
//
//   v_f = embedding[rows[n, f]]
//   score[n] = bias + sum_f first[rows[n, f]]
//              + 1/2 sum_d ((sum_f v_f)^2 - sum_f v_f^2)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/touched_blocks.h"
#include "ops/context.h"

namespace syncopate {

// Bound of N F on a GPU.
inline constexpr int64_t kMostLookupsOnGpu = int64_t{1} << 24;

// Rows are in [0, R): checked on the CPU, NaN on a GPU.
void interaction_forward(Context& context,
                         Tensor x,          // (N, F * D) fp32: v_f side by side
                         Tensor score,      // (N, 1) fp32
                         ConstTensor rows,  // (N, F) i32
                         ConstTensor embedding,  // (R, D) fp32
                         ConstTensor first,      // (R, 1) fp32
                         ConstTensor bias);      // (1) fp32

// dv[n, f] = dx[n, f] + dscore[n] (sum_g v_g - v_f)
// dembedding[r] += sum of dv[n, f], dfirst[r] += sum of dscore[n], over (n, f)
// with rows[n, f] == r, in order of (n, f); dbias += sum of dscore.
// Marks the blocks of the rows if `touched`, of a range that contains both
// tables, has marks.
void interaction_backward(Context& context,
                          Tensor dembedding,   // (R, D) accumulated
                          Tensor dfirst,       // (R, 1) accumulated
                          Tensor dbias,        // (1) accumulated
                          ConstTensor dx,      // (N, F * D or more columns)
                          ConstTensor dscore,  // (N, 1)
                          ConstTensor rows,
                          ConstTensor x,  // as forward left it
                          const TouchedBlocks& touched = {});

}  // namespace syncopate
