// Naive ops in double precision, directly from their formulas, against which
// the real ones are tested. Tensors are vectors in the order in which their
// dimensions are written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace syncopate::reference {

using Values = std::vector<double>;

struct Conv {
  int64_t N, C, H, W, K, R, S, stride, pad;
  int64_t P() const { return (H + 2 * pad - R) / stride + 1; }
  int64_t Q() const { return (W + 2 * pad - S) / stride + 1; }
};
Values conv_forward(const Conv& conv, const Values& x, const Values& w);
Values conv_backward_data(const Conv& conv, const Values& dy, const Values& w);
Values conv_backward_weights(const Conv& conv,
                             const Values& x,
                             const Values& dy);

struct BatchNorm {
  int64_t N, C, pixels;
  double epsilon;
  bool has_relu;
};
struct BatchNormResult {
  Values y, mean, variance, rstd;  // variance: biased
};
// An empty z means no residual.
BatchNormResult batchnorm_forward(const BatchNorm& norm,
                                  const Values& x,
                                  const Values& gamma,
                                  const Values& beta,
                                  const Values& z);
struct BatchNormGradients {
  Values dx, dz, dgamma, dbeta;
};
// `y` determines where ReLU was positive.
BatchNormGradients batchnorm_backward(const BatchNorm& norm,
                                      const Values& dy,
                                      const Values& x,
                                      const Values& y,
                                      const Values& gamma,
                                      const Values& mean,
                                      const Values& rstd);

struct Pool {
  int64_t planes, H, W, window, stride, pad;  // planes = N * C
  int64_t P() const { return (H + 2 * pad - window) / stride + 1; }
  int64_t Q() const { return (W + 2 * pad - window) / stride + 1; }
};
struct MaxPoolResult {
  Values y, argmax;
};
MaxPoolResult max_pool_forward(const Pool& pool, const Values& x);
Values max_pool_backward(const Pool& pool,
                         const Values& dy,
                         const Values& argmax);

// x (N, D), w (K, D), b (K) or empty
Values linear_forward(int64_t N,
                      int64_t D,
                      int64_t K,
                      const Values& x,
                      const Values& w,
                      const Values& b);

}  // namespace syncopate::reference
