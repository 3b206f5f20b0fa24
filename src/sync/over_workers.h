// A range of all workers: its mean, or the values of one of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "comm/endpoint.h"
#include "ops/context.h"

namespace syncopate {

// Divides a sum by the number of workers that it is over. The nearest float to
// 1 / workers is off by up to 6e-8, always to the same side: a mean that is
// formed with it in every step would grow or shrink. This adds the rest of the
// reciprocal before the result is rounded.
void divide(Context& context, std::span<float> sum, int workers);

// Both below are collective. `values`, in the context's memory, are as long on
// every worker.

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
