// What a scheme computes on a worker after the backward pass, measured here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "run/session.h"
#include "train/engine.h"

namespace syncopate {

struct UpdateCost {
  double seconds = 0;  // per step of a worker
  bool is_extrapolated = false;
};

// Returns the mean seconds per step that a worker spends on the optimizer,
// averaging, compression, and copying its messages: compute.update_s of this
// machine. Takes steps with four workers in this process (or the least number
// above that which the set-up allows; fewer where memory is short), on random
// gradients and without forward and backward passes, for about `most_s`
// seconds but at least two steps, the first of which does not count. Where the
// messages that a worker reads per step grow in number with the workers (to
// all of them; to neighbours in a graph of growing degree), it repeats this
// with up to 32 workers, or twice the first number, and extrapolates the line
// through both times. Of more than 8 million parameters it takes a part (of
// each tensor, and of the rows of tables that a batch touches) and scales the
// time. That is a little too long where a cost does not grow with a tensor's
// first dimension, such as that of PowerSGD's second factor. `engine` must have
// been built with EngineUse::kMeasureUpdate; afterwards it has neither passes
// nor its whole model. Returns nullopt if the workers that this takes would not
// fit into half of the memory that is left.
std::optional<UpdateCost> measure_update(const Session& session,
                                         Engine& engine,
                                         double most_s);

}  // namespace syncopate
