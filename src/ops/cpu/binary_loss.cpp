#include <cmath>

#include "ops/bodies.h"
#include "ops/cpu/parallel.h"

namespace syncopate::cpu {
namespace {

struct PieceSums {
  double loss = 0;
  int64_t correct = 0, finite = 0;
};

}  // namespace

// With t = z for label 0 and -z for label 1, both cases become
//   loss = log(1 + exp(-|t|)) + max(t, 0),   dloss/dt = 1 / (1 + exp(-t))
// and nothing cancels when the model is confident.
void binary_cross_entropy(Context& context,
                          ClassificationSums* sums,
                          Tensor dlogits,
                          ConstTensor logits,
                          ConstTensor labels,
                          float scale) {
  constexpr int64_t kPiece = 256;
  const int64_t N = logits.shape[0];
  const auto* label = static_cast<const int32_t*>(labels.data);
  for (int64_t n = 0; n < N; ++n)
    CHECK_MSG(label[n] == 0 || label[n] == 1, "label {} of a click", label[n]);
  const float* from = logits.f32();
  float* to = dlogits.data != nullptr ? dlogits.f32() : nullptr;
  // An exponential and a logarithm cost about as much as sixteen elements.
  const auto pieces = results_of_chunks(
      context, N, kPiece, N * 16, [&](int64_t begin, int64_t end) {
        PieceSums mine;
        for (int64_t n = begin; n < end; ++n) {
          const float z = from[n];
          const float t = label[n] == 1 ? -z : z;
          const float e = std::exp(-std::abs(t));
          const float loss = std::log1p(e) + (t < 0 ? 0.0f : t);  // keeps NaN
          if (to != nullptr) {
            const float share = scale * (t < 0 ? e : 1.0f) / (1.0f + e);
            to[n] = label[n] == 1 ? -share : share;
          }
          mine.loss += static_cast<double>(loss);
          if (!std::isfinite(loss)) continue;
          ++mine.finite;
          mine.correct += (z > 0) == (label[n] == 1);
        }
        return mine;
      });
  *sums = {};
  sums->samples = N;
  for (const PieceSums& piece : pieces) {
    sums->loss_sum += piece.loss;
    sums->correct += piece.correct;
    sums->correct_top5 += piece.finite;
  }
}

}  // namespace syncopate::cpu
