// A multilayer perceptron on pixels, without BatchNorm:
//
//   x_0 = pixels    x_k = gelu(W_k x_{k-1} + b_k)    logits = W x_K + b
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "layers/linear.h"
#include "models/classifier.h"

namespace syncopate {

class Perceptron final : public Classifier {
 public:
  // `widths` are those of the hidden layers.
  Perceptron(const ImageSpec& spec,
             DType compute,
             const std::vector<double>& widths);
  double forward_macs() const override;

 protected:
  Slot forward(Walk& walk, const Batch& batch) override;
  void backward(Walk& walk,
                const Batch& batch,
                const Slot& dlogits,
                const GradientListener& final_from) override;
  Layout body_layout(const Device&) const override { return Layout::kNhwc; }

 private:
  struct Hidden {
    Linear linear;
    Slot x, c, y;  // c = W x + b, y = gelu(c)
  };
  Slot pixels(const Walk& walk) const;
  std::vector<Hidden> hidden_;
  std::optional<Linear> last_;
};

}  // namespace syncopate
