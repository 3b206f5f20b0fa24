// Naive log loss of clicks in double precision.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reference/reference.h"

namespace syncopate::reference {

struct BinaryCrossEntropy {
  Values dlogits;  // of the sum of losses
  double loss_sum = 0;
  int64_t correct = 0;
};
BinaryCrossEntropy binary_cross_entropy(const Values& logits,
                                        const Values& labels);

}  // namespace syncopate::reference
