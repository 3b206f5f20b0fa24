// First values of parameters and buffers, from their tables alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "base/rng.h"
#include "tensor/parameter_table.h"

namespace syncopate {

// values[i] = deviation * (the normal that `rng` draws as its i-th), on as many
// threads as OpenMP is told to use. `rng` as in Rng::after.
void fill_normal(std::span<float> values, double deviation, const Rng& rng);

// Filters (K, C, R, S): N(0, sqrt(2 / (R S K))), He et al. 2015 by fan-out.
// Matrices (K, D) and the bias after them: U(-1/sqrt(D), 1/sqrt(D)).
// BatchNorm and LayerNorm: gamma ("*.weight") 1, beta 0. Embedding tables:
// N(0, 0.02). Draws depend on the seed and the
// tensor's index only.
void initialise_parameters(std::span<float> parameters,
                           const ParameterTable& table,
                           uint64_t seed);

// Running means 0, running variances ("*.running_var") 1.
void initialise_buffers(std::span<float> buffers, const ParameterTable& table);

}  // namespace syncopate
