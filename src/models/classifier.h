// Base of every image classifier: its batches, and the metrics of softmax
// cross-entropy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "models/network.h"

namespace syncopate {

// Returns loss, accuracy and, for more than five classes, top-5 accuracy.
std::vector<MetricInfo> classification_metrics(int64_t classes);

class Classifier : public Network {
 public:
  Classifier(const ImageSpec& spec, DType compute);
  // Training's targets (ops/loss.h); evaluations keep the labels as they are.
  void smooth_labels(double smoothing) {
    smoothing_ = static_cast<float>(smoothing);
  }
  std::vector<MetricInfo> metrics() const override {
    return classification_metrics(spec_.classes);
  }

 protected:
  // Logits are (N, classes).
  void loss(Walk& walk, const Batch& batch, const LossArgs& args) override;
  Batch largest(int64_t N) const override;
  void check(const Batch& batch) const override;

  ImageSpec spec_;

 private:
  float smoothing_ = 0;
};

}  // namespace syncopate
