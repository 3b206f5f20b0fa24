// syncopate status INPUT.ini [--section.key=value ...] | RUN: the progress of a
// run, for people and for job scripts. Reads no data.
#include <fstream>

#include "app/commands.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "results/results.h"
#include "run/run_directory.h"
#include "run/slurm.h"

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

// Returns the job that has queued itself again and has not started yet, or "".
std::string job_in_queue(const RunDirectory& run) {
  std::ifstream file(run.restarts());
  std::string line, last;
  while (std::getline(file, line)) last = line;
  const std::vector<std::string> words = split(last, ' ');
  return words.size() > 2 && words[2] == "requeued" ? words[1] : "";
}

void print_status(const RunDirectory& run) {
  RunOutcome outcome = outcome_of(run);
  const std::string owner = owner_of(run.path());
  const std::string job = job_in_queue(run);
  // A stop that is not the end: the run goes on, or will.
  if (outcome.ended == "stopped" && !owner.empty()) outcome.ended = "none";
  const bool may_go_on = outcome.ended == "stopped" || outcome.ended == "none";
  if (may_go_on && owner.empty() && !job.empty())
    outcome.ended = "requeued as job " + job;
  const char* request = request_file(look_for_request(run.path()));
  print("directory", run.path().string());
  print("step", std::to_string(newest_step(run)));
  print("logged", std::to_string(outcome.step));
  print("owner", owner);
  print("ended", outcome.ended);
  print("stopped_by", outcome.stopped_by);
  print("request", request ? request : "");
}

RunDirectory run_in(const fs::path& folder, const CommandLine& line) {
  line.allow_only({}, CommandLine::Keys::kRefused);
  RunDirectory run(folder);
  if (!run.holds_a_run())
    fail(ExitCode::kInputMissing, "{}: holds no run (results.h5, checkpoints/)",
         folder.string());
  return run;
}

// Inside a Slurm job, the number of ranks that srun will start is known.
RunDirectory run_of(const std::string& path,
                    const CommandLine& line,
                    int ranks) {
  const ParsedInput input = parse_input(path, line.overrides);
  refuse_errors(input);
  const RunOptions& run = input.options.run;
  const int tasks = ranks > 1 ? ranks : slurm_tasks();
  const int workers = run.workers > 0 ? static_cast<int>(run.workers) : tasks;
  if (workers == 0 && run.name.find("{workers}") != std::string::npos)
    fail(ExitCode::kUsage,
         "status: run.name = {} depends on run.workers, which is auto: give "
         "the run's folder or --run.workers=N",
         run.name);
  return {input.options, workers};
}

}  // namespace

ExitCode command_status(Session& session, const CommandLine& line) {
  session.agree_on([&] {
    line.allow_only({}, CommandLine::Keys::kTaken);
    const std::string& word = line.only_argument("INPUT.ini or run's folder");
    const RunDirectory run = fs::is_directory(word)
                                 ? run_in(word, line)
                                 : run_of(word, line, session.size());
    if (session.rank() == 0) print_status(run);
  });
  return ExitCode::kDone;
}

}  // namespace syncopate
