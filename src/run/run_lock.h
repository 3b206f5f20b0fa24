// One run directory, one owner: the file RUN/lock, which its owner holds
// locked and whose text says who that is.
//
// Where the file system knows no locks, the file RUN/lock.owner takes their
// place: it is there while there is an owner, who touches it every few seconds.
// One that its owner cannot have left alive is taken over.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/file.h"

namespace syncopate {

struct RunOwner {
  std::string job;   // as slurm_job(); empty outside of Slurm
  int restarts = 0;  // of that job
  int64_t pid = 0;
  std::string host;

  static RunOwner self();
  std::string text() const;  // "job 123, process 4711 on n1"
  static std::optional<RunOwner> from_text(const std::string& text);
};

class RunLock {
 public:
  // Error(kCannotCreate) within a second if another process has it: "FOLDER:
  // in use by job 123, process 4711 on n1". Kept until this object or the
  // process ends, however it ends.
  explicit RunLock(const fs::path& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  // Without locks of the file system.
  bool is_fallback() const { return owner_file_ >= 0; }
  // Says that this process is alive; false if the folder was taken from it
  // meanwhile. For a thread of its own: it may wait for storage.
  bool beat() const;

 private:
  bool lock(const fs::path& path);
  void take_owner_file();
  bool create_owner_file();

  fs::path folder_, owner_path_;
  int lock_ = -1;        // a descriptor, kept open
  int owner_file_ = -1;  // of lock.owner
};

// Who has it now; empty: nobody. Takes nothing itself.
std::string owner_of(const fs::path& folder);
// The Error of RunLock if somebody has it now.
void refuse_if_owned(const fs::path& folder);

}  // namespace syncopate
