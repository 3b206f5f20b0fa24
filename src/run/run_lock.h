// Exclusive ownership of a run directory: the owner holds a lock on the file
// RUN/lock, whose text identifies it.
//
// If the file system does not support locks, the existence of RUN/lock.owner
// takes their place: the owner touches it twice a second, and a file whose
// owner must be dead is taken over.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/file.h"

namespace syncopate {

struct RunOwner {
  std::string job;   // as slurm_job(); empty outside Slurm
  int restarts = 0;  // of that job
  int64_t pid = 0;
  std::string host;

  static RunOwner self();
  std::string text() const;  // "job 123, process 4711 on n1"
  static std::optional<RunOwner> from_text(const std::string& text);
};

class FolderInUse : public Error {
 public:
  using Error::Error;
};

class RunLock {
 public:
  // Throws FolderInUse (kCannotCreate) if another process owns the folder:
  // "FOLDER: in use by job 123, process 4711 on n1"; another Error if the files
  // cannot be made or written. The lock is held until this object is destroyed
  // or the process ends, however it ends.
  explicit RunLock(const fs::path& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  // Returns whether lock.owner is used because locks are not supported.
  bool is_fallback() const { return owner_file_ >= 0; }
  // Signals that this process is alive. Returns false if another process has
  // taken over the folder. May block on storage, so call it from its own
  // thread.
  bool beat() const;

 private:
  bool lock(const fs::path& path);
  void take_owner_file();
  bool create_owner_file();
  void release();

  fs::path folder_, owner_path_;
  int lock_ = -1;        // a descriptor, kept open
  int owner_file_ = -1;  // of lock.owner
};

// Returns the current owner, or an empty string. Does not acquire the folder.
std::string owner_of(const fs::path& folder);
// Throws the Error of RunLock if the folder has an owner now.
void refuse_if_owned(const fs::path& folder);

}  // namespace syncopate
