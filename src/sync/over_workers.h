// A range of all workers: its mean, or the values of one of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "comm/endpoint.h"
#include "ops/context.h"

namespace syncopate {

// Both are collective. `values`, in the context's memory, are as long on every
// worker.

// Replaces `values` by their mean over the workers, for an evaluation.
void mean_over_workers(Context& context,
                       Endpoint& endpoint,
                       std::span<float> values);

// Replaces `values` by those of worker `root`.
void copy_from_worker(Context& context,
                      Endpoint& endpoint,
                      std::span<float> values,
                      int root,
                      int tag,
                      Traffic traffic);

}  // namespace syncopate
