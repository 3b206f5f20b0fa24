// Pooling layers: maximum after an ImageNet stem, mean before the classifier.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layers/walk.h"
#include "ops/pool.h"

namespace syncopate {

// 3x3 windows, stride 2, padding 1 (He et al. 2016a, after the 7x7 stem).
class MaxPool {
 public:
  explicit MaxPool(const ImageSize& in);
  const ImageSize& out() const { return out_; }

  Slot forward(Walk& walk, const Slot& x);
  Slot backward(Walk& walk, const Slot& dy);  // dx, newly taken

 private:
  static constexpr PoolSize kSize{3, 2, 1};
  ImageSize in_, out_;
  Slot argmax_;  // (N, C, P, Q) u8, kept from forward to backward
};

class GlobalAveragePool {
 public:
  explicit GlobalAveragePool(const ImageSize& in) : in_(in) {}

  Slot forward(Walk& walk, const Slot& x) const;    // (N, C) fp32
  Slot backward(Walk& walk, const Slot& dy) const;  // dx, newly taken

 private:
  ImageSize in_;
};

}  // namespace syncopate
