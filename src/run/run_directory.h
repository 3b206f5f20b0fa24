// The directory of a run: its name, its files, its owner, requests made in it,
// and whether it already holds a run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "config/options.h"
#include "run/request_files.h"
#include "run/run_lock.h"
#include "run/signals.h"

namespace syncopate {

class RunDirectory {
 public:
  // Replaces {scheme}, {seed}, {workers} and {job} in run.name; {job} is
  // Slurm's job id, or "local" outside Slurm.
  RunDirectory(const Options& options, int workers);
  // Returns the first of PATTERN-2, PATTERN-3, ... of run.name whose directory
  // does not exist.
  static std::string free_name(Options options, int workers);
  // An existing run's directory.
  explicit RunDirectory(fs::path path) : path_(std::move(path)) {}

  const fs::path& path() const { return path_; }
  fs::path input() const { return path_ / "input.ini"; }
  fs::path log() const { return path_ / "log.txt"; }
  fs::path results() const { return path_ / "results.h5"; }
  fs::path metrics() const { return path_ / "metrics.csv"; }
  fs::path checkpoints() const { return path_ / "checkpoints"; }
  fs::path best() const { return checkpoints() / "best"; }
  // Which jobs started the run at which step: written by jobs/job.sh.
  fs::path restarts() const { return path_ / "restarts.txt"; }

  // Acquires the directory until this process ends and starts to poll for STOP
  // and SAVE. Throws Error(kCannotCreate), which names the owner, if another
  // process owns it. Without file locks, a process that was suspended for
  // minutes may lose the directory; it then exits with kCannotCreate.
  void acquire();
  // Undoes acquire() for a start that was refused: removes the folders that it
  // created, unless the run has results or checkpoints.
  void abandon() const;

  // Returns the request that the latest poll found (polls are half a second
  // apart). Never blocks on storage.
  StopRequest requested() const;
  // To be called after a checkpoint was written because of `request`: removes
  // its file, and SAVE in any case, and logs it. If something else ended the
  // run, STOP remains and stops the next start.
  void granted(StopRequest request, Log& log) const;
  // To be called when the run has finished: removes and logs STOP and SAVE.
  void discard_requests(Log& log) const;

  bool holds_a_run() const;
  // Throws Error(kCannotCreate) if the directory holds a run and
  // checkpoint.resume is none.
  void refuse_if_taken(const Options& options) const;
  // Keeps results that this run does not continue: results.h5 and metrics.csv,
  // if they exist, become results-1.h5 and metrics-1.csv (-2, ...), which is
  // logged with `why`. Returns the new path of results.h5, or an empty one.
  // keep_results() leaves results.h5 in place as well, for the run's own to
  // replace it: a start that fails before then leaves results.h5 untouched, and
  // the next start reuses the same number.
  fs::path keep_results(const std::string& why, Log& log) const;
  void set_results_aside(const std::string& why, Log& log) const;

 private:
  void remove_request(StopRequest granted, const char* why, Log& log) const;

  fs::path path_;
  fs::path created_;               // the topmost folder that acquire() created
  std::shared_ptr<RunLock> lock_;  // shared with the watch
  std::unique_ptr<RequestWatch> watch_;  // null until acquire()
};

}  // namespace syncopate
