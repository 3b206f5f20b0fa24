#include "train/saved_run.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "config/world.h"
#include "run/run_directory.h"
#include "sync/scheme.h"
#include "train/checkpoint_model.h"

namespace syncopate {
namespace {

// Returns the newest checkpoint whose manifest can be read. load_checkpoint
// reports what is wrong with others.
std::optional<CheckpointFacts> newest_facts(const fs::path& directory) {
  for (const fs::path& folder : checkpoint_folders(directory)) {
    try {
      return read_checkpoint_facts(folder);
    } catch (const Error&) {
      continue;
    }
  }
  return std::nullopt;
}

SavedRun saved_run_of(const CheckpointFacts& facts) {
  SavedRun saved;
  saved.input.values = facts.input;
  saved.workers = saved.length_workers = facts.workers;
  if (const auto began = facts.extra.find(kLengthWorkers);
      began != facts.extra.end())
    saved.length_workers =
        static_cast<int>(parse_int(began->second).value_or(facts.workers));
  return saved;
}

std::string encode(const SavedRun& saved) {
  return nlohmann::json{saved.input.take, saved.input.values,
                        saved.workers,    saved.length_workers,
                        saved.data,       saved.differences}
      .dump();
}

SavedRun decode(const std::string& text) {
  const auto fields = nlohmann::json::parse(text);
  return {.input = {.values = fields[1], .take = fields[0]},
          .workers = fields[2],
          .length_workers = fields[3],
          .data = fields[4],
          .differences = fields[5]};
}

// Returns the key of "KEY: was ..., now ...".
std::string key_of(const std::string& difference) {
  return difference.substr(0, difference.find(':'));
}

// Returns the differences that make a run from another run's checkpoint a new
// run; empty if it resumes that run.
std::vector<std::string> reasons_to_start_anew(const SavedRun& saved,
                                               const ParsedInput& resumed,
                                               int workers) {
  std::vector<std::string> differences = resume_conflicts(
      saved.input.values, resumed.resolved, Workers::kMayDiffer);
  std::erase_if(differences, [](const std::string& line) {
    return key_of(line) == "run.device" || key_of(line) == "run.threads";
  });
  if (workers != saved.workers && !resize_obstacle(resumed.options).empty())
    differences.push_back(
        fmt::format("run.workers: was {}, now {}", saved.workers, workers));
  const bool is_new = std::ranges::any_of(differences, [](const auto& line) {
    return key_of(line) == "run.workers" || makes_a_new_run(key_of(line));
  });
  if (!is_new) differences.clear();
  return differences;
}

std::optional<SavedRun> find_here(const std::string& input_path,
                                  const std::vector<std::string>& overrides,
                                  int ranks) {
  // Keys that are missing here may be in the saved run.
  const ParsedInput given = parse_input(input_path, overrides);
  const std::string& mode = given.options.checkpoint.resume;
  if (mode == "none") return std::nullopt;
  const RunOptions& run = given.options.run;
  if (mode != "auto" && ranks == 1 && run.workers == 0 &&
      run.name.find("{workers}") != std::string::npos)
    given.refuse(
        fmt::format("run.name: {} depends on run.workers, which the checkpoint "
                    "of checkpoint.resume may decide: give run.workers",
                    run.name));
  const RunDirectory directory(given.options, workers_of(run, ranks));
  const auto own = newest_facts(directory.checkpoints());
  if (!own && mode == "auto") return std::nullopt;
  const CheckpointFacts facts =
      own ? *own : read_checkpoint_facts(checkpoint_folder(mode));
  SavedRun saved = saved_run_of(facts);
  int workers = static_cast<int>(given.options.run.workers);
  if (ranks > 1) workers = ranks;  // the launcher's to say
  if (workers == 0) workers = saved.workers;
  if (workers != saved.workers) forget_by_worker(saved.input.values);
  if (ranks > 1) {
    saved.input.values.erase("run.workers");
    forget_virtual_time(saved.input.values);
  }
  if (own) return saved;
  if (const auto data = facts.extra.find("data"); data != facts.extra.end())
    saved.data = data->second;
  ParsedInput resumed = parse_input(input_path, overrides, &saved.input);
  check_world(resumed, ranks);
  saved.differences = reasons_to_start_anew(saved, resumed, workers);
  if (!saved.differences.empty())
    saved.input.take = SavedInput::Take::kModel;
  else if (const fs::path taken = RunDirectory(resumed.options, workers).path();
           taken != directory.path())
    given.refuse(fmt::format(
        "run.name: {} expands to {} with the keys of the checkpoint that "
        "checkpoint.resume names: set those keys here, or another run.name",
        run.name, taken.string()));
  return saved;
}

}  // namespace

std::optional<SavedRun> find_saved_run(
    Session& session,
    const std::string& input_path,
    const std::vector<std::string>& overrides) {
  std::string text;
  session.agree_on([&] {
    if (session.rank() != 0) return;
    if (const auto saved = find_here(input_path, overrides, session.size()))
      text = encode(*saved);
  });
  text = session.share(text);
  if (text.empty()) return std::nullopt;
  return decode(text);
}

std::string resize_obstacle(const Options& options) {
  if (scheme_info(options.sync.scheme).is_composite)
    return "phases of sync_switch, and the workers that they leave out, are "
           "counted by worker";
  if (options.sync.asp.record || !options.sync.asp.replay.empty())
    return "an order of arrival can be recorded or replayed only with the same "
           "number of workers";
  if (!options.data.batch_by_worker.empty())
    return "data.batch_by_worker has one number for each worker";
  return "";
}

std::string describe_taken(const ParsedInput& input) {
  std::vector<std::string> all;
  for (const auto& [key, value] : input.taken)
    if (key != "run.device" && key != "run.threads")  // auto, resolved
      all.push_back(key + " = " + value);
  return join(all, ", ");
}

}  // namespace syncopate
