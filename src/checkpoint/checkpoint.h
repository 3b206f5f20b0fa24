// Crash-safe checkpoints: written to a temporary, verified, renamed.
//
//   DIR/step-00001234/manifest.json  replica.h5  worker-0000.h5 ...
//
// Each writer closes and fsyncs its own serial HDF5 file (chunked, fletcher32;
// no times, hosts or paths inside; state that belongs to a model's tensors,
// such as momentum, has their names and shapes: "momentum/fc.weight"). The size
// and XXH3-128 of every file go into manifest.json, which ends with a digest of
// itself. Then step-N.tmp is renamed to step-N and the parent fsynced; only
// then is it committed, and older ones are pruned (never all). A reader
// verifies sizes and digests before HDF5 sees a byte.
//
// A directory holds one line of history: committing step N removes later steps,
// which belong to an abandoned run. An existing step-N is set aside as
// step-N.replaced until the new one is committed; readers recognise it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/detail.h"
#include "base/file.h"
#include "comm/endpoint.h"
#include "tensor/state_visitor.h"

namespace syncopate {

// Facts that a manifest states, and that a resume compares or restores.
struct CheckpointFacts {
  int64_t worker_steps = 0;  // sum over workers; step = worker_steps / workers
  int64_t step = 0;          // names the folder
  int workers = 1;
  std::string scheme;
  std::map<std::string, std::string> input;  // resolved key -> value
  std::map<std::string, std::string> extra;  // version, data digest, ...
};

using StateVisit = std::function<void(StateVisitor&)>;

// Collective over the world. `visit` enumerates all state of this worker;
// kShared values are taken from rank 0. Returns the committed folder. Errors:
// kCannotCreate / kIoError on every rank alike, in one line with the failing
// file and errno; the previous checkpoint is untouched.
fs::path save_checkpoint(Endpoint& endpoint,
                         const fs::path& directory,
                         const CheckpointFacts& facts,
                         const StateVisit& visit,
                         int64_t keep);

// A file of a checkpoint, as stated in the manifest.
struct CheckpointFile {
  std::string name;  // "replica.h5", "worker-0003.h5"
  int64_t bytes = 0;
  std::string digest;  // XXH3-128, 32 hexadecimal digits
};

// A verified checkpoint: every file has the manifest's size and digest.
struct FoundCheckpoint {
  fs::path folder;
  CheckpointFacts facts;
  std::vector<CheckpointFile> files;
  std::vector<std::string> warnings;  // damaged newer ones that were skipped
  int64_t format_version = 0;         // older ones are converted when loading
};

// Returns the folders of committed checkpoints in `directory`, newest first.
std::vector<fs::path> checkpoint_folders(const fs::path& directory);

// Returns what the manifest of one folder states. Verifies the manifest's own
// digest but not the files. Error(kInputMissing) or Error(kBadInput).
CheckpointFacts read_checkpoint_facts(const fs::path& folder);

// Verifies one folder. Error(kBadInput) says what is wrong with which file.
FoundCheckpoint verify_checkpoint(const fs::path& folder);

// Returns the newest intact checkpoint in `directory`, or nullopt if there are
// none at all. Error(kBadInput) if there are some but all are damaged.
std::optional<FoundCheckpoint> find_newest_checkpoint(
    const fs::path& directory);

// Collective: rank 0 finds the checkpoint, to which each rank goes by its own
// path of `directory`. With `exact`, on all ranks, it is rank 0's folder of
// that name, without fallback. Every worker verifies what it will read. Errors
// and warnings are the same on every rank.
std::optional<FoundCheckpoint> agree_on_checkpoint(
    Endpoint& endpoint,
    const fs::path& directory,
    const std::optional<fs::path>& exact);

// Restores all state that `visit` enumerates; kWorker state comes from the file
// of `worker` (this worker's rank). A name that is missing in the file, left
// over in it (unless that is ignored, as by evaluate and predict), or of
// another size is Error(kBadInput).
enum class LeftOver : uint8_t { kRefused, kIgnored };
void load_checkpoint(const FoundCheckpoint& found,
                     int worker,
                     const StateVisit& visit,
                     LeftOver left_over = LeftOver::kRefused);

// Returns whether state of this name, or a range of tensors "NAME/...", was
// saved by all workers together (kShared) or by `worker`.
bool has_state(const FoundCheckpoint& found,
               Owner owner,
               int worker,
               const std::string& name);

// Returns the tensors of such a range with their shapes, in the order of their
// names; their roles are not known. Empty if there are none. Error(kBadInput)
// for a checkpoint of format version 1, which has no shapes.
ParameterTable stored_tensors(const FoundCheckpoint& found,
                              Owner owner,
                              int worker,
                              const std::string& range);

// For `inspect`: facts, files with sizes and digests; with kAll also every
// dataset with shape and type, and the input.
std::string describe_checkpoint(const fs::path& folder,
                                Detail detail = Detail::kAll);

}  // namespace syncopate
