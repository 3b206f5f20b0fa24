#include <cmath>

#include "ops/bodies.h"
#include "ops/cpu/parallel.h"

namespace syncopate::cpu {
namespace {

struct EndResult {
  double loss;
  int64_t rank;  // tokens ranked before the label; -1: not a number
};

struct SpanResult {
  EndResult end[2];  // first, last
};

// Computes one of the two ends in one sequence of `length` tokens, whose logits
// have stride 2. Reads everything before writing: dlogits may alias logits.
EndResult one_end(float* dlogits,
                  const float* logits,
                  int64_t length,
                  int64_t label,
                  float scale) {
  const float chosen = logits[2 * label];
  float highest = logits[0];
  int64_t rank = 0;
  for (int64_t i = 0; i < length; ++i) {
    const float logit = logits[2 * i];
    highest = std::max(highest, logit);
    rank += logit > chosen || (logit == chosen && i < label);
  }
  double sum = 0;
  for (int64_t i = 0; i < length; ++i) {
    const float e = std::exp(logits[2 * i] - highest);
    sum += static_cast<double>(e);
    if (dlogits != nullptr) dlogits[2 * i] = e;
  }
  if (dlogits != nullptr) {
    const auto factor = static_cast<float>(static_cast<double>(scale) / sum);
    for (int64_t i = 0; i < length; ++i) dlogits[2 * i] *= factor;
    dlogits[2 * label] -= scale;
  }
  const double loss = std::log(sum) + static_cast<double>(highest) -
                      static_cast<double>(chosen);
  return {loss, std::isfinite(loss) ? rank : -1};
}

}  // namespace

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
  auto* results = static_cast<SpanResult*>(
      context.scratch(N * int64_t{sizeof(SpanResult)}));
  // An exponential costs about as much as eight elements.
  parallel_for(context, 2 * N, sequences.tokens * 2 * 8, [&](int64_t task) {
    const int64_t n = task / 2, end = task % 2, first = 2 * offsets[n] + end;
    results[n].end[end] =
        one_end(to != nullptr ? to + first : nullptr, from + first,
                offsets[n + 1] - offsets[n], label[task], scale / 2);
  });
  *sums = {};
  sums->samples = N;
  for (int64_t n = 0; n < N; ++n) {
    const EndResult &first = results[n].end[0], &last = results[n].end[1];
    sums->loss_sum += (first.loss + last.loss) / 2;
    if (first.rank < 0 || last.rank < 0) continue;
    const int64_t rank = std::max(first.rank, last.rank);
    sums->correct += rank == 0;
    sums->correct_top5 += rank < 5;
  }
}

}  // namespace syncopate::cpu
