#include <cmath>

#include "ops/bodies.h"
#include "ops/cpu/parallel.h"

namespace syncopate::cpu {
namespace {

struct RowResult {
  double loss;
  int64_t rank;  // number of classes ranked before the label
};

// Reads the whole row before writing, since dlogits may alias logits.
RowResult one_row(float* dlogits,
                  const float* logits,
                  int64_t K,
                  int64_t label,
                  float scale) {
  const float chosen = logits[label];
  float highest = logits[0];
  int64_t rank = 0;
  for (int64_t k = 0; k < K; ++k) {
    highest = std::max(highest, logits[k]);
    rank += logits[k] > chosen || (logits[k] == chosen && k < label);
  }
  double sum = 0;
  for (int64_t k = 0; k < K; ++k) {
    const float e = std::exp(logits[k] - highest);
    sum += static_cast<double>(e);
    if (dlogits != nullptr) dlogits[k] = e;
  }
  if (dlogits != nullptr) {
    const auto factor = static_cast<float>(static_cast<double>(scale) / sum);
    for (int64_t k = 0; k < K; ++k) dlogits[k] *= factor;
    dlogits[label] -= scale;
  }
  const double loss = std::log(sum) + static_cast<double>(highest) -
                      static_cast<double>(chosen);
  // Comparisons with NaN are false: such a row does not count as correct.
  return {loss, std::isfinite(loss) ? rank : K};
}

}  // namespace

void softmax_cross_entropy(Context& context,
                           ClassificationSums* sums,
                           Tensor dlogits,
                           ConstTensor logits,
                           ConstTensor labels,
                           float scale) {
  const int64_t N = logits.shape[0], K = logits.shape[1];
  const auto* label = static_cast<const int32_t*>(labels.data);
  for (int64_t n = 0; n < N; ++n)
    CHECK_MSG(label[n] >= 0 && label[n] < K, "label {} of {} classes", label[n],
              K);
  const float* from = logits.f32();
  float* to = dlogits.data != nullptr ? dlogits.f32() : nullptr;
  auto* rows =
      static_cast<RowResult*>(context.scratch(N * int64_t{sizeof(RowResult)}));
  // An exponential costs about as much as eight elements.
  parallel_for(context, N, N * K * 8, [&](int64_t n) {
    rows[n] = one_row(to != nullptr ? to + n * K : nullptr, from + n * K, K,
                      label[n], scale);
  });
  *sums = {};
  sums->samples = N;
  for (int64_t n = 0; n < N; ++n) {
    sums->loss_sum += rows[n].loss;
    sums->correct += rows[n].rank == 0;
    // NaN rows have rank K, which must not count if K <= 5.
    sums->correct_top5 += rows[n].rank < std::min<int64_t>(5, K);
  }
}

}  // namespace syncopate::cpu
