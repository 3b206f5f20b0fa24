#include "ops/bodies.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/softmax_loss.h"

namespace syncopate::cpu {

void softmax_cross_entropy(Context& context,
                           ClassificationSums* sums,
                           Tensor dlogits,
                           ConstTensor logits,
                           ConstTensor labels,
                           float scale,
                           float smoothing) {
  const int64_t N = logits.shape[0], K = logits.shape[1];
  const auto* label = static_cast<const int32_t*>(labels.data);
  for (int64_t n = 0; n < N; ++n)
    CHECK_MSG(label[n] >= 0 && label[n] < K, "label {} of {} classes", label[n],
              K);
  const float* from = logits.f32();
  float* to = dlogits.data != nullptr ? dlogits.f32() : nullptr;
  auto* rows = scratch<SoftmaxLoss>(context, N);
  // An exponential costs about as much as eight elements.
  parallel_for(context, N, N * K * 8, [&](int64_t n) {
    rows[n] = softmax_loss<1>(to != nullptr ? to + n * K : nullptr,
                              from + n * K, K, label[n], scale, smoothing);
  });
  *sums = {};
  sums->samples = N;
  for (int64_t n = 0; n < N; ++n) {
    sums->loss_sum += rows[n].loss;
    sums->correct += rows[n].rank == 0;
    sums->correct_top5 += rows[n].rank < 5;
  }
}

}  // namespace syncopate::cpu
