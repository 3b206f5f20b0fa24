// A folder of files that comes to be as a whole: made under another name,
// written, flushed, renamed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace syncopate {

// TO.tmp, held against a second process. Goes away, with the files of `names`
// in it, unless it was committed; such files that a kill left are removed.
class WorkFolder {
 public:
  // Errors: kCannotCreate: TO is there and no empty folder, or TO.tmp cannot
  // be made or belongs to another process.
  WorkFolder(const fs::path& to, std::span<const char* const> names);
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const fs::path& path() const { return path_; }
  void commit();  // the files are flushed already

 private:
  void remove_files();

  fs::path to_, path_;
  std::vector<std::string> names_;
  int lock_ = -1;
  bool is_committed_ = false;
};

// A new file, written from front to back.
class OutputFile {
 public:
  explicit OutputFile(const fs::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  void finish();  // flushes to disk and closes

 private:
  std::string path_;
  int fd_;
};

}  // namespace syncopate
