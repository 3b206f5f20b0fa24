// The file that a command writes because `--output` names it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace syncopate {

namespace fs = std::filesystem;

// Returns the file to which `name` leads, behind symbolic links. Throws
// Error(kCannotCreate) if it cannot be created (creatable_file in base/file.h),
// or if it would replace one of `sources`, from which the command reads (paths
// that are empty or lead nowhere do not matter), or a file that a run keeps.
fs::path output_file(const std::string& name,
                     const std::vector<std::string>& sources);

}  // namespace syncopate
