// The models of a checkpoint, for commands that do not train.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "train/evaluator.h"

namespace syncopate {

// Returns the description of the network at `path` (as for load_models), for
// build_engine: keys of [model] that the user does not give are taken from the
// checkpoint. Returns nullopt if there is no checkpoint, which load_models
// reports.
std::optional<SavedRun> saved_network(const fs::path& path);

// Throws Error(kBadInput) naming a key of the network that differs from the
// checkpoint's.
void refuse_other_network(const Engine& engine, const FoundCheckpoint& found);

// Returns the checkpoint at `path`: a checkpoint folder, or the newest
// undamaged one of a folder of checkpoints or of a run directory. Error(
// kInputMissing) if there is none, Error(kBadInput) if it is damaged.
FoundCheckpoint find_model(const fs::path& path);

// Returns read(find_model(path)), and begins again if the run that writes these
// checkpoints has removed the one that is being read.
template <typename Read>
auto read_model(const fs::path& path, const Read& read) {
  constexpr int kMostTries = 4;
  for (int tries = 1;; ++tries) {
    const FoundCheckpoint found = find_model(path);
    try {
      return read(found);
    } catch (const Error&) {
      if (tries == kMostTries || fs::exists(found.folder)) throw;
    }
  }
}

// Returns the folder of the checkpoint at `path`, as find_model() does, but
// without looking into a checkpoint folder itself.
fs::path checkpoint_folder(const fs::path& path);

// Which tensors a model has: its network's, or those that are stored.
struct ModelTables {
  const ParameterTable& parameters;
  const ParameterTable& buffers;
};
ModelTables tables_of(const Model& network);

struct HostModel {
  std::vector<float> parameters, buffers;
};
// Under which names a checkpoint has a model's values.
struct ModelRanges {
  const char* parameters = "parameters";
  const char* buffers = "buffers";
};
inline constexpr ModelRanges kModelRanges;
inline constexpr ModelRanges kCentreRanges{.parameters = "centre"};
inline constexpr ModelRanges kEmaRanges{"ema/parameters", "ema/buffers"};
// Whether a checkpoint has values of this name, shared or of each worker.
bool has_range(const FoundCheckpoint& found, const char* name);
// Whether all workers share one model, which one file contains.
bool is_shared_by_all(const FoundCheckpoint& found,
                      const ModelTables& tables,
                      const ModelRanges& ranges = kModelRanges);
// Returns a worker's parameters and running statistics: its own, or those that
// all share.
HostModel load_worker(const FoundCheckpoint& found,
                      const ModelTables& tables,
                      const ModelRanges& ranges,
                      int worker);
// Returns the mean over the workers, of which it holds one at a time, or what
// all share.
HostModel mean_model(const FoundCheckpoint& found,
                     const ModelTables& tables,
                     const ModelRanges& ranges = kModelRanges);

// Reads parameters and running statistics into ranges of the network's sizes:
// the shared ones, or else their means over the workers.
void average_model(const FoundCheckpoint& found,
                   const Model& network,
                   std::span<float> parameters,
                   std::span<float> buffers);

struct CheckpointModels {
  std::string folder, digest;  // of the checkpoint and of all its files
  // One for eval.model = average, rank0, centre and ema; each worker's for each
  // and each_and_average.
  std::vector<EvaluatedModel> models;
  std::optional<EvaluatedModel> average;  // for each_and_average
};

// `path` is as for find_model. Parameters and running statistics
// are those that all workers share, or else averaged, rank 0's or each worker's
// own; for centre, easgd's centre and averaged statistics; for ema, the
// workers' moving averages, averaged. Statistics are recomputed if
// eval.batchnorm says so. Warns if the checkpoint was trained on other data or
// on images of another size, or if its run evaluated otherwise. Throws
// Error(kBadInput) if its classes had other names, or if it is damaged, of
// another network or has no centre or moving average, Error(kInputMissing) if
// there is none.
CheckpointModels load_models(const Engine& engine,
                             const std::string& path,
                             Log& log);

}  // namespace syncopate
