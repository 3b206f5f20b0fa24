// Initial values of parameters and buffers, from their tables alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "base/choice.h"
#include "base/rng.h"
#include "tensor/parameter_table.h"

namespace syncopate {

// values[i] = deviation * (the i-th normal drawn from `rng`), using OpenMP's
// threads. `rng` must satisfy the precondition of Rng::after.
void fill_normal(std::span<float> values, double deviation, const Rng& rng);

// Initial values of filters (K, C, R, S), matrices (K, D) and their biases.
// fan_in = R S C or D, fan_out = R S K or K. A truncated normal is redrawn
// beyond two deviations, and widened such that its variance is the stated one.
enum class Init : uint8_t {
  // Filters N(0, 2 / fan_out) (He et al. 2015) with biases 0; matrices and
  // their biases U(-1/sqrt(D), 1/sqrt(D)), as in PyTorch.
  kHe,
  // U(-a, a), a = sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010); biases
  // 0. MXNet's Xavier() with its defaults: uniform, average, magnitude 3.
  kXavier,
  // Tensor2Tensor's ResNets: filters truncated normal of variance 1 / fan_in
  // (TensorFlow's variance_scaling_initializer() with its defaults), matrices
  // truncated normal of variance 2 / ((fan_in + fan_out) / 2) (T2T's
  // normal_unit_scaling, gain 2); biases 0.
  kT2t,
  // U(-0.07, 0.07), biases 0: Gluon's default initialiser.
  kGluon,
};
constexpr const char* names_of(Init) {
  return "he xavier t2t gluon";
}

// BatchNorm and LayerNorm: gamma ("*.weight") 1, beta 0. Embedding tables: N(0,
// 0.02). Draws depend only on the seed and the tensor's index.
void initialise_parameters(std::span<float> parameters,
                           const ParameterTable& table,
                           uint64_t seed,
                           Init init = Init::kHe);

// Running means 0, running variances ("*.running_var") 1.
void initialise_buffers(std::span<float> buffers, const ParameterTable& table);

}  // namespace syncopate
