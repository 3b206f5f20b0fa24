// Naive layer normalisation in double precision. Matrices are (rows, H).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reference/reference.h"

namespace syncopate::reference {

struct LayernormResult {
  Values y, mean, rstd;
};
LayernormResult layernorm_forward(int64_t rows,
                                  int64_t H,
                                  const Values& z,
                                  const Values& gamma,
                                  const Values& beta,
                                  double eps);

struct LayernormGradients {
  Values dz, dgamma, dbeta;
};
LayernormGradients layernorm_backward(int64_t rows,
                                      int64_t H,
                                      const Values& dy,
                                      const Values& z,
                                      const Values& gamma,
                                      double eps);

}  // namespace syncopate::reference
