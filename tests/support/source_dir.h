// The source tree, where tests find inputs and fixtures.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace syncopate {

// The tree that the environment's SOURCE_DIR names, otherwise the one from
// which the tests were built.
std::filesystem::path source_dir();

}  // namespace syncopate
