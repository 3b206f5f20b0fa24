// First values of parameters and buffers, from their tables alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "base/rng.h"
#include "tensor/parameter_table.h"

namespace syncopate {

// values[i] = deviation * (the normal that `rng` draws as its i-th), on as many
// threads as OpenMP is told to use. `rng` as in Rng::after.
void fill_normal(std::span<float> values, double deviation, const Rng& rng);

// How filters (K, C, R, S), matrices (K, D) and the biases behind them start.
// fan_in = R S C or D, fan_out = R S K or K. A truncated normal is drawn again
// beyond two deviations, and made wider so that its variance is the given one.
enum class Init : uint8_t {
  // Filters N(0, 2 / fan_out) (He et al. 2015), their biases 0; matrices and
  // their biases U(-1/sqrt(D), 1/sqrt(D)), as PyTorch has them.
  kHe,
  // U(-a, a), a = sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010);
  // biases 0. MXNet's Xavier() as it comes: uniform, average, magnitude 3.
  kXavier,
  // Tensor2Tensor's ResNets: filters truncated normal of variance 1 / fan_in
  // (TensorFlow's variance_scaling_initializer() as it comes), matrices
  // truncated normal of variance 2 / ((fan_in + fan_out) / 2) (T2T's
  // normal_unit_scaling, gain 2); biases 0.
  kT2t,
  // U(-0.07, 0.07), biases 0: what Gluon does where no initialiser is named.
  kGluon,
};
// "he", "xavier", "t2t", "gluon"; another name is Error(kBadInput).
Init init_named(const std::string& name);

// BatchNorm and LayerNorm: gamma ("*.weight") 1, beta 0. Embedding tables:
// N(0, 0.02). Draws depend on the seed and the tensor's index only.
void initialise_parameters(std::span<float> parameters,
                           const ParameterTable& table,
                           uint64_t seed,
                           Init init = Init::kHe);

// Running means 0, running variances ("*.running_var") 1.
void initialise_buffers(std::span<float> buffers, const ParameterTable& table);

}  // namespace syncopate
