#include "app/saved_run.h"

#include "app/run_directory.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"

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

std::optional<CheckpointFacts> find_facts(const Options& options) {
  const std::string& mode = options.checkpoint.resume;
  if (mode == "none") return std::nullopt;
  auto found = newest_facts(RunDirectory(options).checkpoints());
  if (!found && mode != "auto") found = read_checkpoint_facts(mode);
  return found;
}

// One line a key: neither keys nor values have line breaks.
std::string encode(const std::map<std::string, std::string>& values) {
  std::string text;
  for (const auto& [key, value] : values) text += key + '=' + value + '\n';
  return text;
}

SavedInput decode(const std::string& text) {
  SavedInput saved;
  for (const std::string& line : split(text, '\n'))
    if (const size_t equals = line.find('='); equals != std::string::npos)
      saved.values[line.substr(0, equals)] = line.substr(equals + 1);
  return saved;
}

}  // namespace

std::optional<SavedInput> find_saved_input(
    Session& session,
    const std::string& input_path,
    const std::vector<std::string>& overrides) {
  std::string text;
  session.agree_on([&] {
    if (session.rank() != 0) return;
    const ParsedInput input = parse_input(input_path, overrides);
    if (!input.errors.empty()) return;
    if (auto facts = find_facts(input.options)) text = encode(facts->input);
  });
  text = session.share(text);
  if (text.empty()) return std::nullopt;
  SavedInput saved = decode(text);
  if (session.size() > 1) saved.values.erase("run.workers");  // the launcher's
  return saved;
}

std::string describe_taken(const ParsedInput& input) {
  std::vector<std::string> all;
  for (const auto& [key, value] : input.taken)
    all.push_back(key + " = " + value);
  return join(all, ", ");
}

}  // namespace syncopate
