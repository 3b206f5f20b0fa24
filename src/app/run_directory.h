// The folder of a run: its name, what is in it, and whether to go on from it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "app/signals.h"
#include "base/file.h"
#include "base/log.h"
#include "config/options.h"

namespace syncopate {

class RunDirectory {
 public:
  // {scheme}, {seed}, {job} of run.name are replaced; {job} is Slurm's job id,
  // or "local".
  explicit RunDirectory(const Options& options);

  const fs::path& path() const { return path_; }
  fs::path input() const { return path_ / "input.ini"; }
  fs::path log() const { return path_ / "log.txt"; }
  fs::path results() const { return path_ / "results.h5"; }
  fs::path checkpoints() const { return path_ / "checkpoints"; }

  // Makes the directory this process's own until it ends: Error(kCannotCreate)
  // names who has it. The kernel lets go of it with the process; where a file
  // system knows no locks, nothing is guarded.
  void acquire();

  // What a file named STOP or SAVE in the folder asks for; looked at twice a
  // second at most. granted() takes both away.
  StopRequest requested() const;
  void granted() const;

  bool holds_a_run() const;
  // Error(kCannotCreate) if it holds a run and checkpoint.resume is none.
  void refuse_if_taken(const Options& options) const;
  // A run that starts anew where another left results but no checkpoint keeps
  // those: results.h5 becomes results-1.h5 (-2, ...), and the log says so.
  void set_results_aside(Log& log) const;

 private:
  fs::path path_;
  int lock_ = -1;  // a descriptor, kept open
  mutable double looked_at_s_ = 0;
};

}  // namespace syncopate
