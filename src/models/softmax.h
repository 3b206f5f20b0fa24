// Softmax regression on vectors: one dense layer and softmax cross-entropy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "layers/linear.h"
#include "models/network.h"

namespace syncopate {

class Softmax final : public Network {
 public:
  Softmax(const VectorSpec& spec, DType compute);
  std::vector<MetricInfo> metrics() const override;
  double forward_macs() const override;

 protected:
  Slot forward(Walk& walk, const Batch& batch) override;
  void backward(Walk& walk,
                const Batch& batch,
                const Slot& dlogits,
                const GradientListener& final_from) override;
  void loss(Context& context,
            ClassificationSums* sums,
            Tensor dlogits,
            ConstTensor logits,
            const Batch& batch,
            float scale) override;
  Batch largest(int64_t N) const override;
  void check(const Batch& batch) const override;

 private:
  VectorSpec spec_;
  Linear fc_;
  Slot x_;  // the batch, from forward to backward
};

}  // namespace syncopate
