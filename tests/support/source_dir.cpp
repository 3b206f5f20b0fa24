// SPDX-License-Identifier: Apache-2.0
#include "support/source_dir.h"

#include <cstdlib>

namespace syncopate {

std::filesystem::path source_dir() {
  const char* given = std::getenv("SOURCE_DIR");
  return given != nullptr ? given : SYNCOPATE_SOURCE_DIR;
}

}  // namespace syncopate
