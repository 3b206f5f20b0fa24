// Evaluation of a model on the test or validation set, shared out over the
// workers where they evaluate the same model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <optional>

#include "app/engine.h"
#include "comm/endpoint.h"
#include "sync/scheme.h"

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

// What an evaluation says.
struct Evaluation {
  MetricSums metrics;                 // of the model that eval.model names
  std::vector<MetricSums> by_worker;  // each, each_and_average
  std::optional<MetricSums> average;  // each_and_average
  // sqrt(mean over workers of |x_i - mean x|^2); nullopt: the scheme keeps
  // replicas equal.
  std::optional<double> consensus_distance;
};

// Collective, at a boundary: evaluates what eval.model and eval.batchnorm say.
Evaluation evaluate_scheme(const Engine& engine,
                           Endpoint& endpoint,
                           Scheme& scheme);

// Class scores (samples, classes) of the whole evaluation set.
std::vector<float> predict_all(const Engine& engine, const ReplicaView& model);

// Collective: sums over all workers, the same at each.
MetricSums sum_over_workers(Endpoint& endpoint, const MetricSums& mine);

}  // namespace syncopate
