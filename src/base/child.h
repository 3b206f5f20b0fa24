// Runs another program as a child process, collects its answer, and kills it if
// it does not answer in time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace syncopate {

struct ChildAnswer {
  std::string output;    // what it wrote to stdout
  std::string errors;    // and to stderr
  std::string obstacle;  // "squeue: no answer in 5 s"; empty if it exited with
                         // 0
};

// Runs words[0], found along PATH, with the other words as arguments, for at
// most `timeout_s`. The child inherits the environment but no open files except
// /dev/null as stdin. All its signals have default dispositions, and it has a
// process group of its own, so neither a launcher's pipes nor Ctrl-C reach it.
// Never throws because of what the program does.
ChildAnswer run_child(const std::vector<std::string>& words, double timeout_s);

}  // namespace syncopate
