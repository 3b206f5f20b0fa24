// Evaluates a model on the test or validation set. Workers that evaluate the
// same model share the work.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "comm/endpoint.h"
#include "optim/moving_average.h"
#include "sync/scheme.h"
#include "train/engine.h"

namespace syncopate {

// A model to evaluate, in the memory of the engine's device.
struct EvaluatedModel {
  explicit EvaluatedModel(const Engine& engine);  // without values
  // Recomputes the running statistics if eval.batchnorm says so.
  void prepare(const Engine& engine);

  DeviceVector<float> parameters, buffers;
  ReplicaView view() { return {parameters, {}, buffers}; }
};

// Is called after each batch of an evaluation, on a worker that shows it.
using BatchDone = std::function<void(int64_t done, int64_t total)>;

// Returns a scorer that has seen batches first, first + stride, ...
std::unique_ptr<Scorer> evaluate_batches(const Engine& engine,
                                         SetPart part,
                                         const ReplicaView& model,
                                         int64_t first,
                                         int64_t stride,
                                         const BatchDone& batch_done = {});

// The results of an evaluation.
struct Evaluation {
  // Values of Problem::metrics(): of the model that eval.model names, or the
  // mean over several models; on rank 0, of each worker's model (each,
  // each_and_average); of the average model (each_and_average).
  std::vector<double> metrics;
  std::vector<std::vector<double>> by_worker;
  std::optional<std::vector<double>> average;
  // sqrt(mean over workers of |x_i - mean x|^2); nullopt: the scheme keeps
  // replicas equal.
  std::optional<double> consensus_distance;
};

// Collective, at a boundary. Evaluates the model that eval.model and
// eval.batchnorm describe on `part`. `average` is this worker's, for ema.
Evaluation evaluate_scheme(const Engine& engine,
                           SetPart part,
                           Endpoint& endpoint,
                           Scheme& scheme,
                           const MovingAverage* average,
                           const BatchDone& batch_done = {});

// Returns the mean of several models' metrics.
std::vector<double> mean_of(const std::vector<std::vector<double>>& metrics);

}  // namespace syncopate
