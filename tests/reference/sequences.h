// Dropout of tokens from its definition: the draws of each sequence in turn.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reference/reference.h"

namespace syncopate::reference {

struct Dropout {
  double p;
  uint64_t seed, first_sample;
};

// Sequences of `lengths` tokens, rows of H.
Values token_dropout(const Values& x,
                     const std::vector<int64_t>& lengths,
                     int64_t H,
                     const Dropout& dropout);

}  // namespace syncopate::reference
