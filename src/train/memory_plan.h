// Plans the memory of a run before it is allocated. If it does not fit, the
// message names a batch size that would.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "train/engine.h"

namespace syncopate {

// Returns how many ranks of this host use each of its GPUs. It takes ranks that
// each see one GPU for ranks with separate ones if the host has enough, because
// ranks have not compared their GPUs yet.
int ranks_a_gpu(const Session& session);

// Plans the engine's network for its batches, or only for evaluations if it
// trains nothing, and sets memory_shortage. Throws Error(kBadInput) if the
// activations cannot be allocated.
void plan_memory(const Session& session, Engine& engine);

// For memory that ran out later because of unplanned allocations: returns what
// was planned, and a batch size that needs half of it. Changes the network's
// plan.
std::string out_of_memory_line(const Session& session, Engine& engine);

}  // namespace syncopate
