// A temporary folder for a test, removed with the object.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <stdexcept>
#include <string>

namespace syncopate {

class ScratchFolder {
 public:
  // Throws std::runtime_error if no folder can be created below `parent`.
  explicit ScratchFolder(const std::filesystem::path& parent =
                             std::filesystem::temp_directory_path()) {
    std::string name = (parent / "syncopate-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw std::runtime_error("cannot create a folder in " + parent.string());
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const {
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace syncopate
