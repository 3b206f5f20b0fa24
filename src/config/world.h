// What depends on where the workers are: in one process, on a virtual clock, or
// MPI ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/config.h"

namespace syncopate {

// Whether a key sets what something costs on the virtual clock.
bool is_virtual_cost(const std::string& key);
// Whether an episode (a value of stragglers.episodes) slows links.
bool is_of_link(const std::string& episode);

// Checks what depends on the world: run.workers and compute.speed against the
// number of MPI ranks (1: workers in one process), and virtual costs, which
// several ranks do not have. Adds to `errors`, and removes keys that this world
// does not use from `resolved`.
void check_world(ParsedInput& input, int ranks);

}  // namespace syncopate
