// Evaluation of a model on the test or validation set, shared out over the
// workers where they evaluate the same model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <optional>

#include "comm/endpoint.h"
#include "sync/scheme.h"
#include "train/engine.h"

namespace syncopate {

// A scorer that was given batches first, first + stride, first + 2 stride ...
std::unique_ptr<Scorer> evaluate_batches(const Engine& engine,
                                         SetPart part,
                                         const ReplicaView& model,
                                         int64_t first,
                                         int64_t stride);

// Replaces running statistics by the exact average over
// eval.recompute_batches batches of the training set, without augmentation.
void recompute_statistics(const Engine& engine, const ReplicaView& model);

// What an evaluation says.
struct Evaluation {
  // Of Problem::metrics(): of the model that eval.model names, of several
  // models the mean over them; each, each_and_average: of every worker's;
  // each_and_average: of the average.
  std::vector<double> metrics;
  std::vector<std::vector<double>> by_worker;
  std::optional<std::vector<double>> average;
  // sqrt(mean over workers of |x_i - mean x|^2); nullopt: the scheme keeps
  // replicas equal.
  std::optional<double> consensus_distance;
};

// Collective, at a boundary: evaluates what eval.model and eval.batchnorm say
// on `part`.
Evaluation evaluate_scheme(const Engine& engine,
                           SetPart part,
                           Endpoint& endpoint,
                           Scheme& scheme);

// Metrics of several models, averaged.
std::vector<double> mean_of(const std::vector<std::vector<double>>& metrics);

}  // namespace syncopate
