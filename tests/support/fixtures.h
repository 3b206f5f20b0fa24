// Where recorded values of independent implementations lie.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace syncopate {

// A file of tests/reference/fixtures, in the tree that SOURCE_DIR names, if it
// does, else in the one that the test was built from.
inline std::filesystem::path fixture_path(const std::string& name) {
  const char* source = std::getenv("SOURCE_DIR");
  return std::filesystem::path(source != nullptr ? source
                                                 : SYNCOPATE_SOURCE_DIR) /
         "tests/reference/fixtures" / name;
}

}  // namespace syncopate
