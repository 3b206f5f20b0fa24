// Another program, asked a question: run beside this process, its answer
// taken, and an end made of it where it does not answer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace syncopate {

struct ChildAnswer {
  std::string output;    // what it wrote to stdout
  std::string errors;    // and to stderr
  std::string obstacle;  // "squeue: no answer in 5 s"; empty: it ended with 0
};

// Runs words[0], found along PATH, with the other words, for `timeout_s` at
// most. It gets this environment, no open file of this process but /dev/null
// as stdin, all signals at their defaults and a process group of its own, so
// that neither a launcher's pipes nor Ctrl-C reach it. Never throws for what
// the program does.
ChildAnswer run_child(const std::vector<std::string>& words, double timeout_s);

}  // namespace syncopate
