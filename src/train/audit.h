// Whether replicas that a scheme keeps equal are equal: one flipped bit of
// memory, and all that follows is another training.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "comm/endpoint.h"
#include "ops/context.h"
#include "sync/options.h"
#include "tensor/state_visitor.h"

namespace syncopate {

// Whether every scheme of the run keeps all replicas equal where it is
// quiesced.
bool keeps_replicas_equal(const SyncOptions& sync);

// Whether workers may meet for an audit alone without a bit of the run being
// another: not where they take steps at their own speed, since whoever waits
// then sees newer parameters. Such runs are audited where they meet anyhow.
bool audits_have_boundaries(const SyncOptions& sync);

// Compares, by hashes of 64 bits, what `visit` calls shared (Owner::kShared):
// all that a checkpoint holds once for all workers. What is wrong: which
// workers differ from the others, and in which tensor first; empty: nothing.
// The same on all workers. Collective.
std::string audit_replicas(Context& context,
                           Endpoint& endpoint,
                           const std::function<void(StateVisitor&)>& visit);

}  // namespace syncopate
