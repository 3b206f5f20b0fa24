// Another optimizer in the midst of a run, from where the one before it stood.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "optim/optimizer.h"

namespace syncopate {

// The optimizer of `options` for the whole of `table`: `before` itself where
// `were`, of which it was made, ask for the same arithmetic, else a new one.
// What both keep (momentum; moments and their count of steps) goes on, if they
// keep as many ranges. `before` may be null: then there is nothing to go on
// from. Table and context must outlive the result.
std::unique_ptr<Optimizer> hand_over(Context& context,
                                     std::unique_ptr<Optimizer> before,
                                     const OptimizerOptions& were,
                                     const OptimizerOptions& options,
                                     const ParameterTable& table);

}  // namespace syncopate
