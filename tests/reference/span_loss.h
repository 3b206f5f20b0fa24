// Naive loss of an answer's first and last token in double precision.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reference/reference.h"

namespace syncopate::reference {

struct SpanLoss {
  double loss_sum = 0;
  int64_t correct = 0, correct_top5 = 0;
  Values dlogits;  // (T, 2), for loss_sum
};
SpanLoss span_cross_entropy(const std::vector<int64_t>& lengths,
                            const Values& logits,   // (T, 2)
                            const Values& labels);  // (N, 2)

}  // namespace syncopate::reference
