// Softmax and cross-entropy in one pass, with the counts of a classification.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/context.h"
#include "ops/sequences.h"

namespace syncopate {

// Sums over a batch; mean loss = loss_sum / samples. Summed in double in row
// order, so the value does not depend on threads.
struct ClassificationSums {
  double loss_sum = 0;
  int64_t correct = 0;  // top-1; a tie goes to the lowest class
  int64_t correct_top5 = 0;
  int64_t samples = 0;
};

// loss_n = log sum_k exp(logit[n,k]) - logit[n,label_n]
// dlogits[n,k] = scale * (softmax[n,k] - [k == label_n])
// Pass scale = 1 / (samples whose mean is the objective). dlogits may alias
// logits; data null: no gradient wanted. Labels lie in [0, K): the CPU checks,
// a GPU counts a label outside as a loss of NaN. `sums` lies in the context's
// memory and is assigned; nothing waits for it.
void softmax_cross_entropy(Context& context,
                           ClassificationSums* sums,
                           Tensor dlogits,      // (N, K) fp32
                           ConstTensor logits,  // (N, K) fp32
                           ConstTensor labels,  // (N) i32
                           float scale);

// Log loss of a click, z = logit: loss_n = log(1 + exp(-|z|)) + max(z, 0)
// - z label; dlogits[n] = scale * (1 / (1 + exp(-z)) - label). Counted as
// correct where z > 0 says label 1. Aliasing, `sums`, bad labels: as above.
void binary_cross_entropy(Context& context,
                          ClassificationSums* sums,
                          Tensor dlogits,      // (N, 1) fp32, or data null
                          ConstTensor logits,  // (N, 1) fp32
                          ConstTensor labels,  // (N) i32, 0 or 1
                          float scale);

// The first and the last token of an answer, each the softmax over the tokens
// of its sequence: loss_n = mean of the two cross-entropies. Counted as correct
// where both have the highest logit (a tie goes to the first). labels[n, .] are
// positions in sequence n. samples = N. Aliasing, `sums`, bad labels: as above.
void span_cross_entropy(Context& context,
                        ClassificationSums* sums,
                        Tensor dlogits,      // (T, 2) fp32, or data null
                        ConstTensor logits,  // (T, 2) fp32: first, last
                        ConstTensor labels,  // (N, 2) i32
                        const Sequences& sequences,
                        float scale);

}  // namespace syncopate
