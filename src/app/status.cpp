// syncopate status INPUT.ini [--section.key=value ...]: the progress of its
// run, for people and for job scripts. Reads no data.
#include "app/commands.h"
#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "results/results.h"
#include "run/run_directory.h"

namespace syncopate {
namespace {

void print(const char* name, const std::string& value) {
  fmt::print("{:<11} {}\n", name, value.empty() ? "none" : value);
}

void warn(const std::string& text) {
  fmt::print(stderr, "warning: {}\n", text);
}

// Returns the step of the newest undamaged checkpoint, or 0. Warns of damaged
// ones.
int64_t newest_step(const RunDirectory& run) {
  if (!fs::is_directory(run.checkpoints())) return 0;
  try {
    const auto found = find_newest_checkpoint(run.checkpoints());
    if (!found) return 0;
    for (const std::string& warning : found->warnings) warn(warning);
    return found->facts.step;
  } catch (const Error& error) {  // there are some, but all are damaged
    if (error.code() != ExitCode::kBadInput) throw;
    warn(error.what());
    return 0;
  }
}

RunOutcome outcome_of(const RunDirectory& run) {
  if (!fs::exists(run.results())) return {};
  try {
    return read_outcome(run.results());
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) throw;
    warn(error.what());
    return {};
  }
}

void print_status(const RunDirectory& run) {
  const RunOutcome outcome = outcome_of(run);
  const char* request = request_file(look_for_request(run.path()));
  print("directory", run.path().string());
  print("step", std::to_string(newest_step(run)));
  print("logged", std::to_string(outcome.step));
  print("owner", owner_of(run.path()));
  print("ended", outcome.ended);
  print("stopped_by", outcome.stopped_by);
  print("request", request ? request : "");
}

}  // namespace

ExitCode command_status(Session& session, const CommandLine& line) {
  session.agree_on([&] {
    line.allow_only({}, CommandLine::Keys::kTaken);
    const ParsedInput input =
        parse_input(line.only_argument("INPUT.ini"), line.overrides);
    refuse_errors(input);
    if (session.rank() == 0) print_status(RunDirectory(input.options));
  });
  return ExitCode::kDone;
}

}  // namespace syncopate
