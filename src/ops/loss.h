// Softmax and cross-entropy in one pass, with the counts of a classification.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/context.h"

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

}  // namespace syncopate
