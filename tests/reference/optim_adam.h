// Adam and AdamW once more, naively and in double, straight from the boxes of
// Kingma and Ba 2015 (algorithm 1) and Loshchilov and Hutter 2019 (algorithm
// 2).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reference/reference.h"

namespace syncopate::reference {

struct Adam {
  double rate, beta1, beta2, eps, weight_decay;
  bool is_decoupled;
  double grad_scale = 1;
  int64_t lazy_row = 0;  // not 0: rows without a gradient are left alone
  // Of the sequence of steps that has got so far.
  Values m, v;
  int64_t steps = 0;

  // What a step multiplies by the rate; the moments move on.
  Values direction(const Values& x, const Values& gradient);
  void step(Values* x, const Values& gradient);
};

}  // namespace syncopate::reference
