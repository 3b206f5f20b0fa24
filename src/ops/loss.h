// Softmax and cross-entropy in one pass, with classification counts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/context.h"
#include "ops/sequences.h"

namespace syncopate {

// Sums over a batch; mean loss = loss_sum / samples. Summed in double in row
// order, so the result does not depend on the number of threads.
struct ClassificationSums {
  double loss_sum = 0;
  int64_t correct = 0;  // top-1; ties go to the lowest class
  int64_t correct_top5 = 0;
  int64_t samples = 0;
};

//   target[n,k] = (1 - smoothing) [k == label_n] + smoothing / K
//   loss_n = log sum_k exp(logit[n,k]) - sum_k target[n,k] logit[n,k]
//   dlogits[n,k] = scale * (softmax[n,k] - target[n,k])
//
// with label smoothing in [0, 1) as in Szegedy et al. 2016, section 7. Pass
// scale = 1 / (number of samples in the mean that is the objective). dlogits
// may alias logits; null data means that no gradient is needed. Labels are in
// [0, K): the CPU checks them; on a GPU an invalid label gives a NaN loss.
// `sums` is in the context's memory and is assigned, without waiting for the
// device.
void softmax_cross_entropy(Context& context,
                           ClassificationSums* sums,
                           Tensor dlogits,      // (N, K) fp32
                           ConstTensor logits,  // (N, K) fp32
                           ConstTensor labels,  // (N) i32
                           float scale,
                           float smoothing);

// Log loss of a click, with z = logit:
//
//   loss_n = log(1 + exp(-|z|)) + max(z, 0) - z label
//   dlogits[n] = scale * (1 / (1 + exp(-z)) - label)
//
// A sample counts as correct if (z > 0) == (label == 1). Aliasing, `sums` and
// invalid labels are as above.
void binary_cross_entropy(Context& context,
                          ClassificationSums* sums,
                          Tensor dlogits,      // (N, 1) fp32, or data null
                          ConstTensor logits,  // (N, 1) fp32
                          ConstTensor labels,  // (N) i32, 0 or 1
                          float scale);

// Cross-entropy of an answer's first and last token, each with a softmax over
// the tokens of its sequence: loss_n = mean of the two. A sample counts as
// correct if both labels have the highest logit (ties go to the first).
// labels[n, .] are positions in sequence n. samples = N. Aliasing, `sums` and
// invalid labels are as above.
void span_cross_entropy(Context& context,
                        ClassificationSums* sums,
                        Tensor dlogits,      // (T, 2) fp32, or data null
                        ConstTensor logits,  // (T, 2) fp32: first, last
                        ConstTensor labels,  // (N, 2) i32
                        const Sequences& sequences,
                        float scale);

}  // namespace syncopate
