// Memory of a run, planned before it is taken: what does not fit is told with
// the batch that would.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "train/engine.h"

namespace syncopate {

// Plans the engine's network for its batches and sets memory_shortage.
// Error(kBadInput): there is not as much memory as the activations take.
void plan_memory(const Session& session, Engine& engine);

// For memory that ran out later, by what is not planned: what was, and a batch
// that needs half of it. The network's plan is another afterwards.
std::string out_of_memory_line(const Session& session, Engine& engine);

}  // namespace syncopate
