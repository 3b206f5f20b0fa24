#include "reference/binary_loss.h"

#include <cmath>
#include <cstddef>

namespace syncopate::reference {

// -log of the probability of the outcome, p = 1 / (1 + exp(-z)).
BinaryCrossEntropy binary_cross_entropy(const Values& logits,
                                        const Values& labels) {
  BinaryCrossEntropy result;
  for (size_t n = 0; n < logits.size(); ++n) {
    const double z = logits[n];
    const double odds_against = labels[n] == 1 ? std::exp(-z) : std::exp(z);
    const double wrong = odds_against / (1 + odds_against);
    result.loss_sum += std::log(1 + odds_against);
    result.dlogits.push_back(labels[n] == 1 ? -wrong : wrong);
    result.correct += (z > 0) == (labels[n] == 1);
  }
  return result;
}

}  // namespace syncopate::reference
