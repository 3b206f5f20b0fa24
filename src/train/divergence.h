// The place at which a run met a number that is not finite.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor/parameter_table.h"

namespace syncopate {

struct Divergence {
  enum What { kLoss, kGradient, kParameters };
  int rank = 0;
  int64_t step = 0;  // the worker's own, counted from 1
  What what = kLoss;
  int tensor = -1;     // of a gradient: the one that backward met first
  int parameter = -1;  // the worker's first that is not finite; -1: none

  // "the gradient of 'fc.weight' of worker 2 is not finite at step 17".
  std::string text(const ParameterTable& parameters) const;
};

// Returns the earlier one; within a step, the one that forward and backward
// reach first.
std::optional<Divergence> first_of(const std::optional<Divergence>& a,
                                   const std::optional<Divergence>& b);

// Encodes a divergence as numbers for a message of constant length.
std::vector<double> to_numbers(const std::optional<Divergence>& divergence);
std::optional<Divergence> divergence_from(const double* numbers);

}  // namespace syncopate
