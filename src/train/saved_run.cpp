#include "train/saved_run.h"

#include <algorithm>

#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "run/run_directory.h"
#include "sync/scheme.h"

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
  SavedRun saved{.input = {facts.input, SavedInput::Take::kAll},
                 .workers = facts.workers,
                 .length_workers = facts.workers,
                 .data = {},
                 .differences = {}};
  if (const auto began = facts.extra.find(kLengthWorkers);
      began != facts.extra.end())
    saved.length_workers =
        static_cast<int>(parse_int(began->second).value_or(facts.workers));
  return saved;
}

// The lines are: numbers; keys; "@" and a digest; and for each difference "!"
// and its text. None of these contains a line break.
std::string encode(const SavedRun& saved) {
  std::string text =
      fmt::format("{} {} {}\n", static_cast<int>(saved.input.take),
                  saved.workers, saved.length_workers);
  for (const auto& [key, value] : saved.input.values)
    text += key + '=' + value + '\n';
  if (!saved.data.empty()) text += '@' + saved.data + '\n';
  for (const std::string& line : saved.differences) text += '!' + line + '\n';
  return text;
}

SavedRun decode(const std::string& text) {
  std::vector<std::string> lines = split(text, '\n');
  const std::vector<std::string> numbers = split(lines.at(0), ' ');
  SavedRun saved;
  saved.input.take = static_cast<SavedInput::Take>(*parse_int(numbers.at(0)));
  saved.workers = static_cast<int>(*parse_int(numbers.at(1)));
  saved.length_workers = static_cast<int>(*parse_int(numbers.at(2)));
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    const size_t equals = line.find('=');
    if (line.starts_with('@'))
      saved.data = line.substr(1);
    else if (line.starts_with('!'))
      saved.differences.push_back(line.substr(1));
    else if (equals != std::string::npos)
      saved.input.values[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return saved;
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
  const auto own = newest_facts(RunDirectory(given.options).checkpoints());
  if (!own && mode == "auto") return std::nullopt;
  const CheckpointFacts facts = own ? *own : read_checkpoint_facts(mode);
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
  if (!saved.differences.empty()) saved.input.take = SavedInput::Take::kModel;
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
    return "an order of arrival that is recorded or replayed is of so many "
           "workers";
  if (!options.data.batch_by_worker.empty())
    return "data.batch_by_worker is of so many workers";
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
