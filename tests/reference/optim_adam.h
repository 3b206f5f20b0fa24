// Naive Adam and AdamW in double precision, directly from Kingma and Ba 2015
// (algorithm 1) and Loshchilov and Hutter 2019 (algorithm 2).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reference/reference.h"

namespace syncopate::reference {

struct Adam {
  double rate, beta1, beta2, eps, weight_decay;
  bool is_decoupled;
  double grad_scale = 1;
  int64_t lazy_row = 0;  // not 0: skip rows without a gradient
  // State after the steps so far.
  Values m, v;
  int64_t steps = 0;

  // Returns the factor of the rate and updates the moments.
  Values direction(const Values& x, const Values& gradient);
  void step(Values* x, const Values& gradient);
};

}  // namespace syncopate::reference
