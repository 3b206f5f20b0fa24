#include "reference/interaction.h"

namespace syncopate::reference {

// Sums pairs one by one: 1/2 ((sum v)^2 - sum v^2) = sum over f < g of v_f v_g.
InteractionResult interaction_forward(const Interaction& size,
                                      const Values& rows,
                                      const Values& embedding,
                                      const Values& first,
                                      double bias) {
  const auto& [N, F, R, D] = size;
  InteractionResult result;
  for (int64_t n = 0; n < N; ++n) {
    double score = bias;
    const auto at = [&](int64_t f, int64_t d) {
      const auto row = static_cast<int64_t>(rows[n * F + f]);
      return embedding[row * D + d];
    };
    for (int64_t f = 0; f < F; ++f) {
      score += first[static_cast<int64_t>(rows[n * F + f])];
      for (int64_t d = 0; d < D; ++d) {
        result.x.push_back(at(f, d));
        for (int64_t g = 0; g < f; ++g) score += at(f, d) * at(g, d);
      }
    }
    result.score.push_back(score);
  }
  return result;
}

// d/dv_f of the pairs is the sum of the others.
InteractionGradients interaction_backward(const Interaction& size,
                                          const Values& dx,
                                          const Values& dscore,
                                          const Values& rows,
                                          const Values& x) {
  const auto& [N, F, R, D] = size;
  InteractionGradients result{Values(R * D), Values(R)};
  for (int64_t n = 0; n < N; ++n) {
    result.dbias += dscore[n];
    for (int64_t f = 0; f < F; ++f) {
      const auto row = static_cast<int64_t>(rows[n * F + f]);
      result.dfirst[row] += dscore[n];
      for (int64_t d = 0; d < D; ++d) {
        double others = 0;
        for (int64_t g = 0; g < F; ++g)
          if (g != f) others += x[(n * F + g) * D + d];
        result.dembedding[row * D + d] +=
            dx[(n * F + f) * D + d] + dscore[n] * others;
      }
    }
  }
  return result;
}

}  // namespace syncopate::reference
