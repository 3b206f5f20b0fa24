// The mean of a range over all workers, for evaluations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "comm/endpoint.h"
#include "ops/context.h"

namespace syncopate {

// Collective. Replaces `values`, in the context's memory and as long on every
// worker, by their mean over the workers.
void mean_over_workers(Context& context,
                       Endpoint& endpoint,
                       std::span<float> values);

}  // namespace syncopate
