#include "reference/loss.h"

#include <algorithm>
#include <cmath>

namespace syncopate::reference {

Loss softmax_cross_entropy(int64_t N,
                           int64_t K,
                           const Values& logits,
                           const Values& labels,
                           double smoothing) {
  Loss out;
  out.dlogits.resize(logits.size());
  for (int64_t n = 0; n < N; ++n) {
    const auto label = static_cast<int64_t>(labels[n]);
    double sum = 0;
    for (int64_t k = 0; k < K; ++k) sum += std::exp(logits[n * K + k]);
    for (int64_t k = 0; k < K; ++k) {
      const double target = (1 - smoothing) * (k == label ? 1 : 0) +
                            smoothing / static_cast<double>(K);
      out.loss_sum += target * (std::log(sum) - logits[n * K + k]);
      out.dlogits[n * K + k] = std::exp(logits[n * K + k]) / sum - target;
    }
  }
  return out;
}

// -log of the probability of the outcome, p = 1 / (1 + exp(-z)).
Loss binary_cross_entropy(const Values& logits, const Values& labels) {
  Loss result;
  for (size_t n = 0; n < logits.size(); ++n) {
    const double z = logits[n];
    const double odds_against = labels[n] == 1 ? std::exp(-z) : std::exp(z);
    const double wrong = odds_against / (1 + odds_against);
    result.loss_sum += std::log(1 + odds_against);
    result.dlogits.push_back(labels[n] == 1 ? -wrong : wrong);
    result.correct += (z > 0) == (labels[n] == 1);
  }
  result.correct_top5 = std::ssize(logits);
  return result;
}

Loss span_cross_entropy(const std::vector<int64_t>& lengths,
                        const Values& logits,
                        const Values& labels) {
  Loss result;
  result.dlogits.resize(logits.size());
  size_t begin = 0;
  for (size_t n = 0; n < lengths.size(); ++n) {
    const auto length = static_cast<size_t>(lengths[n]);
    size_t worst_rank = 0;
    for (size_t end = 0; end < 2; ++end) {
      const auto label = static_cast<size_t>(labels[2 * n + end]);
      const auto at = [&](size_t i) { return 2 * (begin + i) + end; };
      double sum = 0;
      size_t rank = 0;
      for (size_t i = 0; i < length; ++i) {
        sum += std::exp(logits[at(i)]);
        rank += logits[at(i)] > logits[at(label)] ||
                (logits[at(i)] == logits[at(label)] && i < label);
      }
      result.loss_sum += (std::log(sum) - logits[at(label)]) / 2;
      for (size_t i = 0; i < length; ++i)
        result.dlogits[at(i)] =
            (std::exp(logits[at(i)]) / sum - (i == label ? 1 : 0)) / 2;
      worst_rank = std::max(worst_rank, rank);
    }
    result.correct += worst_rank == 0;
    result.correct_top5 += worst_rank < 5;
    begin += length;
  }
  return result;
}

}  // namespace syncopate::reference
