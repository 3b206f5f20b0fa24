// The models of a checkpoint, for commands that do not train.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "train/engine.h"

namespace syncopate {

// What `path` (as for load_models) says of the network, for build_engine: keys
// of [model] that the user does not give are the checkpoint's. Nothing where
// there is no checkpoint, which load_models tells.
std::optional<SavedRun> saved_network(const fs::path& path);

// Error(kBadInput) names a key of the network that is not the checkpoint's.
void refuse_other_network(const Engine& engine, const FoundCheckpoint& found);

// Parameters and running statistics that all share, else their means over the
// workers, into ranges of the network's sizes.
void average_model(const FoundCheckpoint& found,
                   const Model& network,
                   std::span<float> parameters,
                   std::span<float> buffers);

struct CheckpointModel {
  DeviceVector<float> parameters, buffers;  // of the engine's device
  ReplicaView view() { return {parameters, {}, buffers}; }
};

struct CheckpointModels {
  std::string folder;
  // By eval.model: one for average, rank0 and centre, each worker's for each.
  std::vector<CheckpointModel> models;
};

// `path`: a checkpoint folder, a folder of checkpoints or a run directory (the
// newest whole one). Parameters and running statistics are those that all
// share, else averaged over the workers, rank 0's or each worker's own (also
// for each_and_average); for centre, easgd's centre and averaged statistics.
// Statistics are recomputed where eval.batchnorm says so. Warns where the data
// is not what the checkpoint was trained on. Errors: Error(kBadInput) where it
// is damaged, of another network or has no centre, kInputMissing where there
// is none.
CheckpointModels load_models(const Engine& engine,
                             const std::string& path,
                             Log& log);

}  // namespace syncopate
