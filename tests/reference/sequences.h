// Token dropout from its definition: the draws of each sequence in turn.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reference/reference.h"

namespace syncopate::reference {

struct Dropout {
  double p;
  uint64_t seed, first_sample;
};

// Sequences have `lengths` tokens, rows H elements.
Values token_dropout(const Values& x,
                     const std::vector<int64_t>& lengths,
                     int64_t H,
                     const Dropout& dropout);

}  // namespace syncopate::reference
