#include "app/command_line.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <boost/program_options.hpp>

#include "base/error.h"
#include "base/text.h"
#include "config/ini.h"
#include "config/keys.h"
#include "keys/value.h"

namespace syncopate {

namespace po = boost::program_options;

// Boost's name for positional arguments.
constexpr const char* kWord = "word";
constexpr const char* kOverride = "override";

const std::string& CommandLine::only_argument(const std::string& what) const {
  if (positional.empty())
    fail(ExitCode::kUsage, "{}: {} is missing (syncopate --help)", command,
         what);
  if (positional.size() > 1)
    fail(ExitCode::kUsage, "{}: one {} expected, also given: {}", command, what,
         positional[1]);
  return positional[0];
}

void CommandLine::no_arguments() const {
  if (!positional.empty())
    fail(ExitCode::kUsage, "{}: takes no arguments, given: {}", command,
         positional[0]);
}

const std::string& CommandLine::required_option(const std::string& name) const {
  const auto found = options.find(name);
  if (found == options.end())
    fail(ExitCode::kUsage, "{}: --{}=... is missing (syncopate --help)",
         command, name);
  return found->second;
}

int64_t CommandLine::parse_whole(const std::string& name,
                                 const std::string& text,
                                 int64_t low,
                                 int64_t high) const {
  const auto number = parse_int(text);
  if (!number || *number < low || *number > high)
    fail(ExitCode::kUsage, "{}: --{}={}: expected a whole number from {} to {}",
         command, name, text, low, high);
  return *number;
}

int64_t CommandLine::whole_number(const std::string& name,
                                  int64_t low,
                                  int64_t high,
                                  int64_t otherwise) const {
  const auto given = options.find(name);
  return given == options.end() ? otherwise
                                : parse_whole(name, given->second, low, high);
}

// Returns the keys that `option` may mean, as options: "--data.batch or
// --eval.batch" for batch.
static std::string keys_called(std::string option) {
  std::ranges::replace(option, '-', '_');
  std::vector<std::string> found;
  for (const Key& key : key_table())
    if (key.word() == option) found.push_back("--" + key.name);
  return join(found, " or ");
}

void CommandLine::allow_only(const std::vector<std::string>& names,
                             Keys keys) const {
  std::vector<std::string> unknown;
  for (const auto& [name, value] : options) {
    if (std::ranges::find(names, name) != names.end()) continue;
    std::string meant;
    if (const auto near = nearest(name, names)) meant = "--" + *near;
    if (keys == Keys::kTaken && meant.empty()) meant = keys_called(name);
    unknown.push_back(
        fmt::format("{}: unknown option --{}{}", command, name,
                    meant.empty() ? "" : " (did you mean " + meant + "?)"));
  }
  if (!unknown.empty())
    fail(ExitCode::kUsage, "{}", join(unknown, "\nerror: "));
  if (keys == Keys::kRefused && !overrides.empty())
    fail(ExitCode::kUsage, "{}: takes no input keys, given: {}", command,
         overrides[0]);
}

// Manifests record these variables and must be UTF-8. Checked before anything
// runs rather than at the first checkpoint.
static void check_environment() {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool is_read =
        text.starts_with("SYNCOPATE_") || text.starts_with("SLURM");
    if (is_read && find_invalid_utf8(text))
      fail(ExitCode::kUsage, "environment: {}: not valid UTF-8",
           escape_bytes(text));
  }
  const char* const runs = std::getenv("SYNCOPATE_RUNS");
  if (runs != nullptr && !is_ini_value(runs))
    fail(ExitCode::kUsage,
         "environment: SYNCOPATE_RUNS: {} cannot be written in an input file: "
         "expected {}",
         in_quotes(runs), kIniValue);
}

// --section.key=value goes to the parser of inputs word for word, which checks
// keys and values and also handles empty values.
static std::pair<std::string, std::string> as_override(
    const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  const bool is_key = name.size() < word.size() && name.starts_with("--") &&
                      name.find('.') != std::string::npos;
  return is_key ? std::pair<std::string, std::string>{kOverride, word}
                : std::pair<std::string, std::string>{};
}

// Options cannot be abbreviated. Unregistered options are kept for
// CommandLine::allow_only, because each command has its own.
static po::parsed_options parse_words(const std::vector<std::string>& words) {
  po::options_description options;
  options.add_options()("help,h", "")("version", "")(
      "output,o", po::value<std::string>(), "")(
      kWord, po::value<std::vector<std::string>>(), "");
  po::positional_options_description positional;
  positional.add(kWord, -1);
  namespace style = po::command_line_style;
  try {
    return po::command_line_parser(words)
        .options(options)
        .positional(positional)
        .style(style::unix_style & ~style::allow_guessing)
        .extra_parser(&as_override)
        .allow_unregistered()
        .run();
  } catch (const po::error& error) {
    fail(ExitCode::kUsage, "{} (syncopate --help)", error.what());
  }
}

CommandLine parse_command_line(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  for (std::string& word : words)  // -o=FILE, as --output=FILE
    if (word.starts_with("-o=")) word.erase(2, 1);
  for (const std::string& word : words)
    if (find_invalid_utf8(word))
      fail(ExitCode::kUsage, "{}: not valid UTF-8", escape_bytes(word));
  check_environment();
  CommandLine line;
  for (const po::option& option : parse_words(words).options) {
    const std::string& name = option.string_key;
    if (name == kOverride) {
      line.overrides.push_back(option.value[0]);
    } else if (name == kWord) {
      (line.command.empty() ? line.command : line.positional.emplace_back()) =
          option.value[0];
    } else if (name == "help" || name == "version") {
      line.positional.clear();
      if (name == "help" && !line.command.empty())
        line.positional.push_back(line.command);
      line.command = name;
      return line;
    } else if (name.starts_with('-')) {
      fail(ExitCode::kUsage, "{}: unknown option (syncopate --help)", name);
    } else if (option.value.empty()) {
      fail(ExitCode::kUsage, "--{}: --name=value expected", name);
    } else if (!line.options.emplace(name, option.value[0]).second) {
      fail(ExitCode::kUsage, "--{}: given twice", name);
    }
  }
  if (line.command.empty()) line.command = "help";
  return line;
}

}  // namespace syncopate
