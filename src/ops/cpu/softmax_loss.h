// The cross-entropy of one softmax, common to classes and to tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace syncopate::cpu {

struct SoftmaxLoss {
  double loss;
  // Logits ranked before the label's; above all counts if the loss is no
  // number, so that it never counts as correct.
  int64_t rank;
};

// Returns the loss of `count` logits, kStride elements apart, and assigns scale
// times its gradient unless dlogits is null. Reads everything before writing,
// since dlogits may alias logits.
template <int kStride>
SoftmaxLoss softmax_loss(float* dlogits,
                         const float* logits,
                         int64_t count,
                         int64_t label,
                         float scale) {
  const float chosen = logits[kStride * label];
  float highest = logits[0];
  int64_t rank = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float logit = logits[kStride * i];
    highest = std::max(highest, logit);
    rank += logit > chosen || (logit == chosen && i < label);
  }
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float e = std::exp(logits[kStride * i] - highest);
    sum += static_cast<double>(e);
    if (dlogits != nullptr) dlogits[kStride * i] = e;
  }
  if (dlogits != nullptr) {
    const auto factor = static_cast<float>(static_cast<double>(scale) / sum);
    for (int64_t i = 0; i < count; ++i) dlogits[kStride * i] *= factor;
    dlogits[kStride * label] -= scale;
  }
  const double loss = std::log(sum) + static_cast<double>(highest) -
                      static_cast<double>(chosen);
  return {loss,
          std::isfinite(loss) ? rank : std::numeric_limits<int64_t>::max()};
}

}  // namespace syncopate::cpu
