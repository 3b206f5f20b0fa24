// Input files for the tests of config: written to a scratch folder, or the
// project's own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/file.h"
#include "config/config.h"
#include "support/source_dir.h"

namespace syncopate {

// Parses `text` as a file whose name in errors is cut to "in.ini".
inline ParsedInput parse_text(const std::string& text,
                              const std::vector<std::string>& overrides = {},
                              const SavedInput* saved = nullptr) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const fs::path folder = fs::path(testing::TempDir()) /
                          fmt::format("syncopate-config-{}-{}-{}", getpid(),
                                      test->test_suite_name(), test->name());
  fs::create_directories(folder);
  const fs::path path = folder / "in.ini";
  std::ofstream(path, std::ios::binary) << text;
  ParsedInput input = parse_input(path.string(), overrides, saved);
  fs::remove_all(folder);
  const std::string before = folder.string() + '/';
  for (std::string& error : input.errors)
    if (error.starts_with(before)) error.erase(0, before.size());
  return input;
}

using Lines = std::vector<std::string>;

}  // namespace syncopate
