// The folder of a run: its name, what is in it, whose it is, what is asked for
// in it, and whether to go on from it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/file.h"
#include "base/log.h"
#include "config/options.h"
#include "run/request_files.h"
#include "run/run_lock.h"
#include "run/signals.h"

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
  // names who has it. From then on files named STOP and SAVE are looked for.
  // A process that loses a directory without locks, because it stood still for
  // minutes, ends with kCannotCreate.
  void acquire();

  // What STOP or SAVE asked for half a second ago. Never waits for storage.
  StopRequest requested() const;
  // A checkpoint was written because of `request`: takes its file away, and
  // SAVE in any case, and says so in the log. STOP stays where something else
  // ended the run: the next start is then stopped by it.
  void granted(StopRequest request, Log& log) const;
  // The run reached its end: nobody is left to stop.
  void discard_requests(Log& log) const;

  bool holds_a_run() const;
  // Error(kCannotCreate) if it holds a run and checkpoint.resume is none.
  void refuse_if_taken(const Options& options) const;
  // Results that are not gone on with are kept: results.h5, where there is one,
  // becomes results-1.h5 (-2, ...), and the log says so and why. The new path.
  fs::path set_results_aside(const std::string& why, Log& log) const;

 private:
  void remove_request(StopRequest granted, const char* why, Log& log) const;

  fs::path path_;
  std::shared_ptr<RunLock> lock_;        // the watch's too
  std::unique_ptr<RequestWatch> watch_;  // of the owner
};

}  // namespace syncopate
