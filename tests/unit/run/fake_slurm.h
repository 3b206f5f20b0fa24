// A fake Slurm with prescribed output: programs in a folder at the head of
// PATH, and the variables of a job. The destructor undoes both.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "base/file.h"
#include "support/scratch_folder.h"

namespace syncopate {

class FakeSlurm {
 public:
  FakeSlurm() {
    for (const char* name :
         {"SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID",
          "SLURM_RESTART_COUNT", "SLURM_JOB_END_TIME"})
      set(name, std::nullopt);
    const char* path = ::getenv("PATH");
    set("PATH", folder_.path().string() + ":" + (path ? path : "/usr/bin"));
  }
  ~FakeSlurm() {
    for (const auto& [name, value] : before_)
      if (value)
        ::setenv(name.c_str(), value->c_str(), 1);
      else
        ::unsetenv(name.c_str());
  }
  FakeSlurm(const FakeSlurm&) = delete;
  FakeSlurm& operator=(const FakeSlurm&) = delete;

  // nullopt: unset.
  void set(const std::string& name, const std::optional<std::string>& value) {
    const char* text = ::getenv(name.c_str());
    before_.try_emplace(name,
                        text ? std::optional<std::string>(text) : std::nullopt);
    if (value)
      ::setenv(name.c_str(), value->c_str(), 1);
    else
      ::unsetenv(name.c_str());
  }

  // squeue becomes this script of a shell.
  void squeue(const std::string& script) {
    const fs::path path = folder_.path() / "squeue";
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    fs::permissions(path, fs::perms::owner_all);
  }

 private:
  ScratchFolder folder_;
  std::map<std::string, std::optional<std::string>> before_;
};

}  // namespace syncopate
