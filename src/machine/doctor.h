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
  // What is worth knowing (kDone) or wrong.
  struct Finding {
    ExitCode code = ExitCode::kDone;
    std::string what, text;
  };

  explicit DoctorReport(Log& log) : log_(log) {}
  template <typename... Args>
  void ok(const std::string& what,
          fmt::format_string<Args...> text,
          Args&&... args) {
    put("[ok]", what, fmt::format(text, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void note(const std::string& what,
            fmt::format_string<Args...> text,
            Args&&... args) {
    add("[note]",
        {.what = what, .text = fmt::format(text, std::forward<Args>(args)...)});
  }
  template <typename... Args>
  void bad(ExitCode code,
           const std::string& what,
           fmt::format_string<Args...> text,
           Args&&... args) {
    add("[bad]", {code, what, fmt::format(text, std::forward<Args>(args)...)});
  }
  // In the order in which they were found.
  const std::vector<Finding>& findings() const { return findings_; }
  // That of the first finding that is wrong; kDone: none is.
  ExitCode code() const {
    for (const Finding& finding : findings_)
      if (finding.code != ExitCode::kDone) return finding.code;
    return ExitCode::kDone;
  }

 private:
  void put(const char* verdict,
           const std::string& what,
           const std::string& text) {
    log_.line("{:<6} {:<12} {}", verdict, what, text);
  }

  void add(const char* verdict, Finding finding) {
    put(verdict, finding.what, finding.text);
    findings_.push_back(std::move(finding));
  }

  Log& log_;
  std::vector<Finding> findings_;
};

// The folder in which runs are made: $SYNCOPATE_RUNS, else the current one.
// The destructor removes it if it was not there before and is empty.
class RunsFolder {
 public:
  RunsFolder();
  ~RunsFolder();
  RunsFolder(const RunsFolder&) = delete;
  RunsFolder& operator=(const RunsFolder&) = delete;
  const fs::path& path() const { return path_; }
  std::string name() const;  // "here" or "in PATH"

 private:
  fs::path path_;
  bool is_new_;
};

// Processor and GPUs of this process.
void check_processor(DoctorReport& report, const Session& session);
void check_gpus(DoctorReport& report);
// Rank 0: how Slurm will treat this job.
void check_slurm(DoctorReport& report, const Session& session);
// Rank 0: the folder of runs.
void check_storage(DoctorReport& report);
void check_run_directory(DoctorReport& report);
// All ranks: what others than rank 0 found about their processors and GPUs;
// cores, threads and GPU of each; signals, messages, and whether the lock of a
// run directory holds between hosts.
void check_ranks(DoctorReport& report, Session& session);

}  // namespace syncopate
