// Recognises checkpoint folders in a directory, and prunes them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/manifest.h"

namespace syncopate {

std::string folder_name(int64_t step);             // "step-00001234"
inline constexpr const char* kTemporary = ".tmp";  // not committed
inline constexpr const char* kReplaced = ".replaced";

// Returns the step in a committed folder's name; nullopt for another name.
std::optional<int64_t> step_of_folder(const fs::path& folder);

// Returns committed folders, newest first by their worker_steps (steps of
// different numbers of workers cannot be compared); a step-N.replaced follows
// its step-N. Empty if there is no such directory. Error(kIoError).
std::vector<fs::path> committed_folders(const fs::path& directory);

// Returns what folder / manifest.json says. Error: kInputMissing if there is no
// such folder, or if a newer program wrote it; kBadInput if it is damaged;
// kIoError.
Manifest read_manifest(const fs::path& folder);

// After a checkpoint at `newest_worker_steps` was committed or loaded: gives a
// step-N.replaced without a step-N, which a kill can leave, its name back; then
// removes temporaries, replaced folders, checkpoints of later work, and all but
// the `keep` (at least 1) newest ones. A folder is renamed to a temporary
// before it is emptied, so a kill leaves no partial checkpoint. What cannot be
// removed is left for the next time.
void prune_folders(const fs::path& directory,
                   int64_t newest_worker_steps,
                   int64_t keep);

}  // namespace syncopate
