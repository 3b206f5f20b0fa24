// Creates a folder of files atomically: the files are written and flushed under
// a temporary name, which is then renamed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/file.h"

namespace syncopate {

// The folder TO.tmp, locked against other processes. Unless it is committed,
// the destructor removes it and the files `names` in it. The constructor
// removes such files left by a process that was killed.
class WorkFolder {
 public:
  // Errors: kCannotCreate if TO exists and is not an empty folder, or if TO.tmp
  // cannot be created or is locked by another process.
  WorkFolder(const fs::path& to, std::span<const char* const> names);
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const fs::path& path() const { return path_; }
  void commit();  // requires that the files have been flushed

 private:
  void remove_files();

  fs::path to_, path_;
  std::vector<std::string> names_;
  int lock_ = -1;
  bool is_committed_ = false;
};

}  // namespace syncopate
