// The checks of `syncopate doctor`. Each tries something on which a run depends
// and reports the result and a remedy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "run/session.h"

namespace syncopate {

// Prints lines "[ok] what text", "[note] ..." and "[bad] ...", on rank 0 only.
// The first bad one determines the exit code.
class DoctorReport {
 public:
  explicit DoctorReport(Log& log) : log_(log) {}
  void ok(const std::string& what, const std::string& text) {
    log_.line("[ok]   {:<12} {}", what, text);
  }
  void note(const std::string& what, const std::string& text) {
    log_.line("[note] {:<12} {}", what, text);
  }
  void bad(ExitCode code, const std::string& what, const std::string& text) {
    log_.line("[bad]  {:<12} {}", what, text);
    if (code_ == ExitCode::kDone) code_ = code;
  }
  ExitCode code() const { return code_; }

 private:
  Log& log_;
  ExitCode code_ = ExitCode::kDone;
};

// Processor and GPUs of this process.
void check_processor(DoctorReport& report, const Session& session);
void check_gpus(DoctorReport& report);
// Rank 0: how Slurm will treat this job.
void check_slurm(DoctorReport& report, const Session& session);
// Rank 0: the current directory, where a run would write.
void check_storage(DoctorReport& report);
void check_run_directory(DoctorReport& report);
// All ranks: cores, threads and GPU of each, signals, messages, and whether
// the lock of a run directory holds between hosts.
void check_ranks(DoctorReport& report, Session& session);

}  // namespace syncopate
