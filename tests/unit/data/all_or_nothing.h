// The contract of every `prepare`: it leaves all of its files, or none.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>
#include <csignal>
#include <map>

#include "data_files.h"

namespace syncopate {

inline std::map<std::string, std::string> contents_of(const fs::path& folder) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : fs::directory_iterator(folder))
    contents[entry.path().filename()] = read_bytes(entry.path());
  return contents;
}

// `prepare` creates FOLDER/ready from the files of `folder` only. `file`, one
// of the files that it writes, is larger than `limit_bytes`.
template <typename Prepare>
void expect_all_or_nothing(const ScratchFolder& folder,
                           const std::string& file,
                           int64_t limit_bytes,
                           const Prepare& prepare) {
  auto names = names_in(folder);
  // A file that may not become that large, as on a full disk.
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = static_cast<rlim_t>(limit_bytes);
  setrlimit(RLIMIT_FSIZE, &small);
  expect_error_has(ExitCode::kIoError, file + ": write: ", prepare);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(names_in(folder), names);
  // Remains of a killed process are no obstacle, but a running process is one.
  const fs::path temporary = folder / "ready.tmp";
  fs::create_directories(temporary);
  write_bytes(temporary / file, "half");
  const int fd = ::open(temporary.c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(fd, LOCK_EX | LOCK_NB), 0);
  expect_error(ExitCode::kCannotCreate,
               temporary.string() + ": another process is writing it", prepare);
  EXPECT_EQ(read_bytes(temporary / file), "half");
  ::close(fd);
  fs::create_directories(folder / "ready");  // empty: may be there
  prepare();
  names.push_back("ready");
  EXPECT_EQ(names_in(folder), names);
  // An existing folder is not overwritten either.
  const auto contents = contents_of(folder / "ready");
  expect_error(ExitCode::kCannotCreate,
               (folder / "ready").string() +
                   ": already exists, expected a new name or an empty folder",
               prepare);
  EXPECT_EQ(contents_of(folder / "ready"), contents);
}

}  // namespace syncopate
