// Verifies that replicas which a scheme keeps equal are in fact equal. A single
// flipped bit in memory would silently change the rest of the training.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "comm/endpoint.h"
#include "ops/context.h"
#include "sync/options.h"
#include "tensor/state_visitor.h"

namespace syncopate {

// Returns whether every scheme of the run keeps all replicas equal when it is
// quiesced.
bool keeps_replicas_equal(const SyncOptions& sync);

// Returns whether an extra meeting of the workers for an audit leaves every bit
// of the run unchanged. It does not if workers run at their own speed, because
// a worker that waits then sees newer parameters. Such runs are audited at
// boundaries that exist anyway.
bool audits_have_boundaries(const SyncOptions& sync);

// Compares 64-bit hashes of the state that `visit` declares as shared
// (Owner::kShared), which a checkpoint holds once for all workers. Returns
// which workers differ from the others, and in which tensor first; empty if
// none does. The result is the same on all workers. Collective.
std::string audit_replicas(Context& context,
                           Endpoint& endpoint,
                           const std::function<void(StateVisitor&)>& visit);

}  // namespace syncopate
