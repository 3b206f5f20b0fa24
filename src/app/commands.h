// The commands, one file each: NAME.cpp holds command_NAME.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "app/command_line.h"
#include "run/session.h"

namespace syncopate {

struct Command {
  std::string name;
  std::string usage;        // "train INPUT.ini [--section.key=value ...]"
  std::string description;  // one line
  ExitCode (*run)(Session& session, const CommandLine& line);
  // What may follow the name if it is not a file, for completion: "ops step".
  std::string words = {};
};
const std::vector<Command>& command_table();

// The words that `list` accepts, separated by spaces.
std::string list_words();

// The codes with which the program ends, in lines behind "Exit codes: ".
inline constexpr const char* kExitCodes =
    "0 done, 64 usage, 65 bad input or data, 66 input missing or unreadable,\n"
    "70 internal, 71 a rank died or hung, 73/74 cannot create / write output,\n"
    "75 stopped with a checkpoint (run again to resume), 76 diverged,\n"
    "130 interrupted";

ExitCode command_train(Session& session, const CommandLine& line);
ExitCode command_evaluate(Session& session, const CommandLine& line);
ExitCode command_predict(Session& session, const CommandLine& line);
ExitCode command_export(Session& session, const CommandLine& line);
ExitCode command_prepare(Session& session, const CommandLine& line);
ExitCode command_validate(Session& session, const CommandLine& line);
ExitCode command_status(Session& session, const CommandLine& line);
ExitCode command_inspect(Session& session, const CommandLine& line);
ExitCode command_list(Session& session, const CommandLine& line);
ExitCode command_simulate(Session& session, const CommandLine& line);
ExitCode command_advise(Session& session, const CommandLine& line);
ExitCode command_doctor(Session& session, const CommandLine& line);
ExitCode command_bench(Session& session, const CommandLine& line);

// prepare squad|criteo INPUT.ini -o FILE.h5, on rank 0.
void prepare_samples(Session& session, const CommandLine& line);

// Returns what --version prints and results.h5 keeps in its provenance:
// version, git, compiler, flags, oneDNN, HDF5, MPI, OpenMP, CUDA.
std::map<std::string, std::string> build_facts(const Session& session);
std::string version_text(const Session& session);

// main() without the process's argv: never returns.
[[noreturn]] void run_program(int argc, char** argv);

}  // namespace syncopate
