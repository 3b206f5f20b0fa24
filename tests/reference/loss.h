// Naive losses in double precision.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reference/reference.h"

namespace syncopate::reference {

struct Loss {
  Values dlogits;  // for loss_sum
  double loss_sum = 0;
  int64_t correct = 0, correct_top5 = 0;  // not of softmax_cross_entropy
};

// logits (N, K), labels (N)
Loss softmax_cross_entropy(int64_t N,
                           int64_t K,
                           const Values& logits,
                           const Values& labels,
                           double smoothing = 0);

// Of clicks: logits (N), labels (N)
Loss binary_cross_entropy(const Values& logits, const Values& labels);

// Of an answer's first and last token: logits (T, 2), labels (N, 2)
Loss span_cross_entropy(const std::vector<int64_t>& lengths,
                        const Values& logits,
                        const Values& labels);

}  // namespace syncopate::reference
