// Evaluation of a model on the test or validation set, shared out over the
// workers where they evaluate the same model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "app/engine.h"
#include "comm/endpoint.h"

namespace syncopate {

// Metric sums of `model` over batches first, first + stride, first + 2 stride
// ... of the evaluation set.
MetricSums evaluate_batches(const Engine& engine,
                            const ReplicaView& model,
                            int64_t first,
                            int64_t stride);

// Replaces running statistics by the exact average over
// eval.recompute_batches batches of the training set, without augmentation.
void recompute_statistics(const Engine& engine, const ReplicaView& model);

// Class scores (samples, classes) of the whole evaluation set.
std::vector<float> predict_all(const Engine& engine, const ReplicaView& model);

// Collective: sums over all workers, the same at each.
MetricSums sum_over_workers(Endpoint& endpoint, const MetricSums& mine);

}  // namespace syncopate
