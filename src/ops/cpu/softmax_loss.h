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
// since dlogits may alias logits. `smoothing` is that of
// softmax_cross_entropy().
template <int kStride>
SoftmaxLoss softmax_loss(float* dlogits,
                         const float* logits,
                         int64_t count,
                         int64_t label,
                         float scale,
                         float smoothing = 0) {
  const float chosen = logits[kStride * label];
  float highest = logits[0];
  int64_t rank = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float logit = logits[kStride * i];
    highest = std::max(highest, logit);
    rank += logit > chosen || (logit == chosen && i < label);
  }
  double mean = 0;  // of the logits
  if (smoothing > 0) {
    for (int64_t i = 0; i < count; ++i)
      mean += static_cast<double>(logits[kStride * i]);
    mean /= static_cast<double>(count);
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
    if (smoothing > 0) {
      const float each = scale * smoothing / static_cast<float>(count);
      for (int64_t i = 0; i < count; ++i) dlogits[kStride * i] -= each;
    }
    dlogits[kStride * label] -= scale * (1 - smoothing);
  }
  double loss = std::log(sum) + static_cast<double>(highest) -
                static_cast<double>(chosen);
  if (smoothing > 0)
    loss +=
        static_cast<double>(smoothing) * (static_cast<double>(chosen) - mean);
  return {loss,
          std::isfinite(loss) ? rank : std::numeric_limits<int64_t>::max()};
}

}  // namespace syncopate::cpu
