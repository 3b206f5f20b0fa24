#include "ops/bodies.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/softmax_loss.h"

namespace syncopate::cpu {

void span_cross_entropy(Context& context,
                        ClassificationSums* sums,
                        Tensor dlogits,
                        ConstTensor logits,
                        ConstTensor labels,
                        const Sequences& sequences,
                        float scale) {
  const int64_t N = sequences.count;
  const auto* label = static_cast<const int32_t*>(labels.data);
  const int32_t* offsets = sequences.offsets;
  for (int64_t i = 0; i < 2 * N; ++i) {
    const int32_t length = offsets[i / 2 + 1] - offsets[i / 2];
    CHECK_MSG(label[i] >= 0 && label[i] < length,
              "label {} in a sequence of {} tokens", label[i], length);
  }
  const float* from = logits.f32();
  float* to = dlogits.data != nullptr ? dlogits.f32() : nullptr;
  auto* ends = scratch<SoftmaxLoss>(context, 2 * N);
  // An exponential costs about as much as eight elements.
  parallel_for(context, 2 * N, sequences.tokens * 2 * 8, [&](int64_t task) {
    const int64_t n = task / 2, end = task % 2, first = 2 * offsets[n] + end;
    ends[task] =
        softmax_loss<2>(to != nullptr ? to + first : nullptr, from + first,
                        offsets[n + 1] - offsets[n], label[task], scale / 2);
  });
  *sums = {};
  sums->samples = N;
  for (int64_t n = 0; n < N; ++n) {
    const SoftmaxLoss &first = ends[2 * n], &last = ends[2 * n + 1];
    sums->loss_sum += (first.loss + last.loss) / 2;
    const int64_t rank = std::max(first.rank, last.rank);
    sums->correct += rank == 0;
    sums->correct_top5 += rank < 5;
  }
}

}  // namespace syncopate::cpu
