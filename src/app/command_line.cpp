#include "app/command_line.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/text.h"

namespace syncopate {

const std::string& CommandLine::only_argument(const std::string& what) const {
  if (positional.empty())
    fail(ExitCode::kUsage, "{}: {} is missing (syncopate --help)", command,
         what);
  if (positional.size() > 1)
    fail(ExitCode::kUsage, "{}: one {} expected, also given: {}", command, what,
         positional[1]);
  return positional[0];
}

const std::string& CommandLine::required_option(const std::string& name) const {
  const auto found = options.find(name);
  if (found == options.end())
    fail(ExitCode::kUsage, "{}: --{}=... is missing (syncopate --help)",
         command, name);
  return found->second;
}

void CommandLine::allow_only(const std::vector<std::string>& names,
                             Keys keys) const {
  for (const auto& [name, value] : options) {
    if (std::ranges::find(names, name) != names.end()) continue;
    const auto near = nearest(name, names);
    fail(ExitCode::kUsage, "{}: unknown option --{}{}", command, name,
         near ? " (did you mean --" + *near + "?)" : "");
  }
  if (keys == Keys::kRefused && !overrides.empty())
    fail(ExitCode::kUsage, "{}: takes no input keys, given: {}", command,
         overrides[0]);
}

// What a run records of its surroundings goes into manifests, which are UTF-8:
// refused before anything runs, not at the first checkpoint.
static void check_environment() {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool is_read =
        text.starts_with("SYNCOPATE_") || text.starts_with("SLURM");
    if (is_read && find_invalid_utf8(text))
      fail(ExitCode::kUsage, "environment: {}: not valid UTF-8",
           escape_bytes(text));
  }
}

CommandLine parse_command_line(int argc, char** argv) {
  CommandLine line;
  const std::vector<std::string> words(argv + 1, argv + argc);
  for (const std::string& word : words)
    if (find_invalid_utf8(word))
      fail(ExitCode::kUsage, "{}: not valid UTF-8", escape_bytes(word));
  check_environment();
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "-o") {
      if (i + 1 == words.size())
        fail(ExitCode::kUsage, "-o: a file or folder must follow");
      line.options["output"] = words[++i];
    } else if (word == "-h" || word == "--help" || word == "--version") {
      line.command = word == "--version" ? "--version" : "--help";
      return line;
    } else if (word.starts_with("--")) {
      const size_t equals = word.find('=');
      if (equals == std::string::npos)
        fail(ExitCode::kUsage, "{}: --name=value expected", word);
      const std::string name = word.substr(2, equals - 2);
      if (name.find('.') != std::string::npos)
        line.overrides.push_back(word);
      else if (!line.options.emplace(name, word.substr(equals + 1)).second)
        fail(ExitCode::kUsage, "--{}: given twice", name);
    } else if (word.starts_with("-") && word.size() > 1) {
      fail(ExitCode::kUsage, "{}: unknown option (syncopate --help)", word);
    } else if (line.command.empty()) {
      line.command = word;
    } else {
      line.positional.push_back(word);
    }
  }
  if (line.command.empty()) line.command = "--help";
  return line;
}

}  // namespace syncopate
