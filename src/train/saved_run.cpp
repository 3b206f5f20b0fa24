#include "train/saved_run.h"

#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "run/run_directory.h"

namespace syncopate {
namespace {

// The newest checkpoint whose manifest can be read; load_checkpoint tells what
// is wrong with others.
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

// Lines: numbers, then keys, then @ and a digest, then a ! and a difference
// each; none of them has a line break.
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

std::optional<SavedRun> find_here(const std::string& input_path,
                                  const std::vector<std::string>& overrides,
                                  int ranks) {
  const ParsedInput given = parse_input(input_path, overrides);
  const std::string& mode = given.options.checkpoint.resume;
  if (!given.errors.empty() || mode == "none") return std::nullopt;
  const auto own = newest_facts(RunDirectory(given.options).checkpoints());
  if (!own && mode == "auto") return std::nullopt;
  const CheckpointFacts facts = own ? *own : read_checkpoint_facts(mode);
  SavedRun saved = saved_run_of(facts);
  // How many ranks there are is the launcher's to say.
  if (ranks > 1) saved.input.values.erase("run.workers");
  if (own) return saved;
  if (const auto data = facts.extra.find("data"); data != facts.extra.end())
    saved.data = data->second;
  ParsedInput resumed = parse_input(input_path, overrides, &saved.input);
  check_world(resumed, ranks);
  for (const std::string& line : resume_conflicts(
           saved.input.values, resumed.resolved, Workers::kMayDiffer))
    if (!line.starts_with("run.device:") && !line.starts_with("run.threads:"))
      saved.differences.push_back(line);
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

std::string describe_taken(const ParsedInput& input) {
  std::vector<std::string> all;
  for (const auto& [key, value] : input.taken)
    if (key != "run.device" && key != "run.threads")  // auto, resolved
      all.push_back(key + " = " + value);
  return join(all, ", ");
}

}  // namespace syncopate
