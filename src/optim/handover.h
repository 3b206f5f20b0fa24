// Replaces the optimizer in the middle of a run and carries its state over.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "optim/optimizer.h"

namespace syncopate {

// Returns the optimizer of `options` for the whole of `table`: `before` itself
// if the options it was made from, `were`, ask for the same arithmetic, else a
// new one. State that both have (momentum; moments and their step count) is
// copied if they have equally many ranges. If `before` is null, the new one has
// initial state. Table and context must outlive the result.
std::unique_ptr<Optimizer> hand_over(Context& context,
                                     std::unique_ptr<Optimizer> before,
                                     const OptimizerOptions& were,
                                     const OptimizerOptions& options,
                                     const ParameterTable& table);

}  // namespace syncopate
