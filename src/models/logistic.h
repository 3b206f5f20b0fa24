// Logistic regression on pixels: one dense layer, no BatchNorm. Its gradient is
// a plain sum over samples, so N workers with batch B are equivalent to one
// with N B; tests rely on that.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layers/linear.h"
#include "models/classifier.h"

namespace syncopate {

// fc.weight (classes, C H W) and fc.bias, PyTorch's Linear on flattened images.
const FileNames& logistic_names();

class Logistic : public Classifier {
 public:
  Logistic(const ImageSpec& spec, DType compute);
  double forward_macs() const override;

 protected:
  Slot forward(Walk& walk, const Batch& batch) override;
  void backward(Walk& walk, const Batch& batch, const Slot& dlogits) override;
  Layout body_layout(const Device&) const override { return Layout::kNhwc; }

 private:
  Slot pixels(const Walk& walk) const;
  Linear fc_;
};

}  // namespace syncopate
