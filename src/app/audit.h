// Whether replicas that a scheme keeps equal are equal: one flipped bit of
// memory, and all that follows is another training.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/engine.h"
#include "sync/scheme.h"

namespace syncopate {

// Whether every scheme of the run keeps all replicas equal where it is
// quiesced.
bool keeps_replicas_equal(const SyncOptions& sync);

// For a quiesced scheme: what is wrong, one line that names the workers and
// the first tensor; empty: nothing. The same on all workers. Collective.
std::string audit_replicas(const Engine& engine,
                           Endpoint& endpoint,
                           const Replica& replica,
                           int64_t step);

}  // namespace syncopate
