// Which folders of a checkpoint directory are checkpoints, and retention.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file.h"

namespace syncopate {

std::string folder_name(int64_t step);             // "step-00001234"
inline constexpr const char* kTemporary = ".tmp";  // not committed
inline constexpr const char* kReplaced = ".replaced";

// The step that a committed folder's name states; nullopt for another name.
std::optional<int64_t> step_of_folder(const fs::path& folder);

// Committed folders, newest first; a step-N.replaced after its step-N. Empty
// if there is no such directory. Error(kIoError).
std::vector<fs::path> committed_folders(const fs::path& directory);

// After step `newest` was committed: removes temporaries, replaced folders,
// steps after `newest`, and all but the `keep` (at least 2) newest others. A
// folder is renamed to a temporary before it is emptied, so that a kill leaves
// no half checkpoint. What cannot be removed stays for the next time.
void prune_folders(const fs::path& directory, int64_t newest, int keep);

}  // namespace syncopate
