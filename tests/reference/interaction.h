// Naive factorisation machine in double precision, directly from its formulas.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reference/reference.h"

namespace syncopate::reference {

struct Interaction {
  int64_t N, F, R, D;
};
struct InteractionResult {
  Values x, score;  // (N, F, D), (N)
};
// rows (N, F), embedding (R, D), first (R)
InteractionResult interaction_forward(const Interaction& size,
                                      const Values& rows,
                                      const Values& embedding,
                                      const Values& first,
                                      double bias);
struct InteractionGradients {
  Values dembedding, dfirst;  // (R, D), (R): to be added
  double dbias = 0;
};
InteractionGradients interaction_backward(const Interaction& size,
                                          const Values& dx,
                                          const Values& dscore,
                                          const Values& rows,
                                          const Values& x);

}  // namespace syncopate::reference
