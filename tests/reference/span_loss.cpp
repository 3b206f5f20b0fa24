#include "reference/span_loss.h"

#include <cmath>

namespace syncopate::reference {

SpanLoss span_cross_entropy(const std::vector<int64_t>& lengths,
                            const Values& logits,
                            const Values& labels) {
  SpanLoss result;
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
