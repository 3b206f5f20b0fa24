#include "config/config.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <set>

#include "base/file.h"
#include "base/text.h"
#include "config/conflicts.h"
#include "config/episodes.h"
#include "config/ini.h"
#include "config/value.h"
#include "config/world.h"
#include "sync/scheme.h"

namespace syncopate {
namespace {

constexpr int kCommandLine = std::numeric_limits<int>::max() - 1;
constexpr int kNowhere = std::numeric_limits<int>::max();
constexpr int64_t kLargestInput = 1 << 20;  // an input is a page or two

// Returns why the length of a run (run.epochs, run.steps) must not change; ""
// if no step depends on how many follow.
std::string use_of_length(const std::map<std::string, std::string>& values) {
  const auto text = [&](const char* key) {
    const auto found = values.find(key);
    return found == values.end() ? std::string() : found->second;
  };
  if (text("schedule.horizon") == "0")
    return "schedule.horizon = 0 lays the schedule out over the run's length";
  if (text("sync_switch.overrides").find("schedule.") != std::string::npos)
    return "sync_switch.overrides gives a phase a schedule of its own";
  const std::string fractions = text("sync_switch.fractions");
  if (!fractions.empty() && fractions != "none")
    return "sync_switch.fractions divides the run's length into phases";
  if (text("ds_sync.final_average") == "yes" ||
      text("sync_switch.overrides").find("final_average") != std::string::npos)
    return "ds_sync.final_average changes the model after the last step";
  if (text("asp.record") == "yes")
    return "asp.record records the order of the whole run";
  const std::string plateau = text("sync_switch.plateau");
  if (!plateau.empty() && plateau != "none")
    return "sync_switch.plateau leaves the first phase the run's whole length";
  if (text("sync.scheme") == "esync" ||
      text("sync_switch.order").find("esync") != std::string::npos)
    return "esync ends a round after the last step";
  return "";
}

// Returns the value of a key in a saved run, or the one from before the key
// existed (empty: its default).
const std::string& text_then(const Key& key,
                             const std::map<std::string, std::string>& saved) {
  const auto found = saved.find(key.name);
  return found == saved.end() ? key.formerly : found->second;
}

// Returns whether a key that the user does not set has its value from `saved`.
// `has_length`: the user sets the length of the run, by this key or another.
bool is_taken(const Key& key, const SavedInput& saved, bool has_length) {
  if (saved.take != SavedInput::Take::kAll && key.section() != "model")
    return false;
  if (key.on_resume == OnResume::kMayExtend)
    return !has_length || !use_of_length(saved.values).empty();
  return key.on_resume == OnResume::kFixed;
}

class Parser {
 public:
  // Where inputs do not say where runs go, the environment may.
  explicit Parser(ParsedInput& input) : input_(input) {
    const char* runs = std::getenv("SYNCOPATE_RUNS");
    if (runs == nullptr || *runs == '\0') return;
    const Key& key = *find_key("run.directory");
    if (const auto wrong = parse_value(key, runs, input_.options))
      fail(ExitCode::kUsage, "environment: SYNCOPATE_RUNS: {}", *wrong);
  }

  void read_file_text(const std::string& text) {
    bool is_known = false;  // the section
    for (const IniLine& line : parse_ini(text))
      if (!line.mistake.empty())
        complain(line.number, line.mistake);
      else if (line.key.empty())
        is_known = check_section(line.section, line.number);
      else if (is_known)  // one complaint about a section is enough
        set(line.section, line.key, line.value, line.number);
  }

  // "--section.key=value"
  void read_override(const std::string& text) {
    const size_t equals = text.find('=');
    const std::string name(trim(std::string_view(text).substr(0, equals)));
    const size_t dot = name.find('.');
    if (!name.starts_with("--") || equals == std::string::npos ||
        dot == std::string::npos)
      return complain(kCommandLine,
                      "expected --section.key=value, found " + in_quotes(text));
    const std::string section = name.substr(2, dot - 2);
    const std::string value(trim(std::string_view(text).substr(equals + 1)));
    if (!check_section(section, kCommandLine)) return;
    if (!is_ini_value(value))
      return complain(
          kCommandLine,
          fmt::format("{}: {} cannot be written in an input file: expected {}",
                      name.substr(2), in_quotes(value), kIniValue));
    set(section, name.substr(dot + 1), value, kCommandLine);
  }

  // Keys that are not set take their values from `saved`, or the values from
  // before the keys existed.
  void take_from(const SavedInput& saved) {
    const bool has_length =
        std::ranges::any_of(key_table(), [&](const Key& key) {
          return key.on_resume == OnResume::kMayExtend &&
                 lines_.contains(key.name);
        });
    for (const Key& key : key_table()) {
      if (lines_.contains(key.name) || !is_taken(key, saved, has_length))
        continue;
      const std::string& text = text_then(key, saved.values);
      // A value that is no longer accepted shows as a conflict.
      if (!text.empty() && !parse_value(key, text, input_.options))
        taken_.insert(key.name);
    }
  }

  // Call behind take_from().
  void take_scheme_defaults() {
    if (unsound_.contains("sync.scheme")) return;
    for (const SchemeDefault& own : own_defaults(
             input_.options.sync.scheme, [this](const std::string& name) {
               return lines_.contains(name) || taken_.contains(name);
             }))
      CHECK(!parse_value(*find_key(own.key), own.value, input_.options));
  }

  void finish() {
    for (const auto& [name, line] : lines_) {
      const Key& key = *find_key(name);
      const auto reason = reason_unused(key, input_.options);
      if (reason && !depends_on_unsound(key))
        complain(line, name + ": " + *reason);
      input_.given[name] = where(line);
    }
    find_conflicts(
        input_.options,
        [this](const std::string& name) { return is_sound(name); },
        [this](const std::string& name, const std::string& what) {
          const auto found = lines_.find(name);
          complain(found == lines_.end() ? kNowhere : found->second,
                   name + ": " + what);
        });
    for (const Key& key : key_table())
      if (!reason_unused(key, input_.options))
        input_.resolved[key.name] = format_value(key, input_.options);
    const Options defaults;
    for (const std::string& name : taken_)
      if (const auto now = input_.resolved.find(name);
          now != input_.resolved.end() &&
          now->second != format_value(*find_key(name), defaults))
        input_.taken.insert(*now);
    std::ranges::stable_sort(complaints_, {}, &Complaint::line);
    for (const Complaint& complaint : complaints_)
      input_.errors.push_back(where(complaint.line) + ": " + complaint.text);
  }

 private:
  struct Complaint {
    int line;
    std::string text;
  };

  std::string where(int line) const {
    if (line == kCommandLine) return kCommandLinePlace;
    if (line == kNowhere) return input_.path;
    return fmt::format("{}:{}", input_.path, line);
  }

  // Names in `text` are arbitrary; control characters must not break the line.
  void complain(int line, std::string text) {
    std::replace_if(
        text.begin(), text.end(),
        [](char c) { return static_cast<unsigned char>(c) < 0x20; }, '?');
    complaints_.push_back({line, std::move(text)});
  }

  bool check_section(const std::string& section, int line) {
    const std::vector<std::string> names = section_names();
    if (std::ranges::count(names, section) > 0) return true;
    const auto meant = nearest(section, names);
    complain(line,
             fmt::format("[{}]: unknown section{}", section,
                         meant ? fmt::format(" (did you mean [{}]?)", *meant)
                               : "; there are " + join(names, ", ")));
    return false;
  }

  // Suggests the key that was meant: a similar one in its section, then the
  // same word elsewhere, then a key that is part of the word (batch_size).
  static std::string suggestion(const std::string& section,
                                const std::string& word) {
    const std::vector<std::string> parts = split(word, '_');
    std::vector<std::string> here, anywhere, within;
    for (const Key& key : key_table()) {
      if (key.section() == section) here.push_back(key.word());
      if (key.word() == word) anywhere.push_back(key.name);
      if (std::ranges::count(parts, key.word()) > 0) within.push_back(key.name);
    }
    if (const auto meant = nearest(word, here))
      return fmt::format(" (did you mean {}.{}?)", section, *meant);
    for (const auto& names : {anywhere, within})
      if (!names.empty())
        return fmt::format(" (did you mean {}?)", in_words(names));
    return fmt::format("; [{}] has {}", section, join(here, ", "));
  }

  void set(const std::string& section,
           const std::string& word,
           const std::string& value,
           int line) {
    const std::string name = section + '.' + word;
    const Key* key = find_key(name);
    if (key == nullptr)
      return complain(line, name + ": unknown key" + suggestion(section, word));
    const auto earlier = lines_.find(name);
    if (earlier != lines_.end() &&
        (line != kCommandLine || earlier->second == kCommandLine))
      return complain(line,
                      line == kCommandLine
                          ? name + ": is given twice, expected once"
                          : fmt::format("{}: is given twice, first in line {}; "
                                        "expected once",
                                        name, earlier->second));
    lines_[name] = line;
    if (const auto wrong = parse_value(*key, value, input_.options)) {
      complain(line, name + ": " + *wrong);
      unsound_.insert(name);
    }
  }

  // Whether the key's use is unknown, because another key has a refused value.
  bool depends_on_unsound(const Key& key) const {
    return std::ranges::any_of(key.used_when, [&](const UsedWhen& rule) {
      return unsound_.contains(rule.key);
    });
  }

  bool is_sound(const std::string& name) const {
    const Key& key = *find_key(name);
    return !unsound_.contains(name) && !depends_on_unsound(key) &&
           !reason_unused(key, input_.options);
  }

  ParsedInput& input_;
  std::map<std::string, int> lines_;  // where a key was last set
  std::set<std::string> unsound_;     // keys with a refused value
  std::set<std::string> taken_;       // keys with a value of a saved run
  std::vector<Complaint> complaints_;
};

// Whether a resolved input has a number for each worker's link.
bool is_list_of_links(const std::string& name,
                      const std::map<std::string, std::string>& resolved) {
  const auto found = resolved.find(name);
  return found != resolved.end() && name.starts_with("network.") &&
         found->second.find_first_of(" ,") != std::string::npos;
}

constexpr const char* kNotUsed = "not used";
constexpr const char* kEpisodes = "stragglers.episodes";
constexpr const char* kVirtualLimit = "run.virtual_limit_s";

// Returns the value of stragglers.episodes without those of links.
std::string without_links(const std::string& value) {
  const Key& key = *find_key(kEpisodes);
  Options options;
  if (parse_value(key, value, options)) return value;
  std::erase_if(options.stragglers.episodes, is_of_link);
  return format_value(key, options);
}

// Returns whether a resolved input is that of workers in one process.
bool has_virtual_costs(const std::map<std::string, std::string>& resolved) {
  return std::ranges::any_of(
      resolved, [](const auto& entry) { return is_virtual_cost(entry.first); });
}

// Returns the options of the saved run. A key that it lacks has its value from
// before the key existed.
Options options_of(const std::map<std::string, std::string>& saved) {
  Options options;
  for (const Key& key : key_table()) {
    const std::string& text = text_then(key, saved);
    if (!text.empty()) parse_value(key, text, options);
  }
  return options;
}

// Text keys may accept numbers (auto or a number), which keep the user's
// spelling.
bool are_same_number(const std::string& a, const std::string& b) {
  const std::optional<double> x = parse_double(a), y = parse_double(b);
  return x && y && *x == *y;
}

// Returns the value of `key` in a run with the resolved input `saved`, in
// today's spelling if it is still accepted.
std::string value_then(const Key& key,
                       const std::map<std::string, std::string>& saved,
                       const Options& options) {
  const auto found = saved.find(key.name);
  if (found == saved.end())
    return reason_unused(key, options) ? kNotUsed : format_value(key, options);
  Options own = options;
  return parse_value(key, found->second, own) ? found->second
                                              : format_value(key, own);
}

}  // namespace

std::string ParsedInput::place_of(const std::string& key) const {
  const auto found = given.find(key);
  return found == given.end() ? path : found->second;
}

void ParsedInput::refuse(const std::string& mistake) const {
  fail(ExitCode::kBadInput, "{}: {}",
       place_of(mistake.substr(0, mistake.find(':'))), mistake);
}

ParsedInput parse_input(const std::string& path,
                        const std::vector<std::string>& overrides,
                        const SavedInput* saved) {
  ParsedInput input;
  input.path = path;
  input.overrides = overrides;
  std::error_code ignored;  // read_file() says what is wrong with the path
  if (const fs::path own = fs::path(path) / "input.ini";
      fs::exists(own, ignored))
    fail(ExitCode::kBadInput, "{}: is the folder of a run: its input is {}",
         path, own.string());
  const std::string text = read_file(path, kLargestInput);
  if (text.find('\0') != std::string::npos)
    fail(ExitCode::kBadInput, "{}: is not text: it holds a zero byte", path);
  if (const auto at = find_invalid_utf8(text)) {
    const auto line = 1 + std::count(text.begin(), text.begin() + *at, '\n');
    input.errors.push_back(fmt::format(
        "{}:{}: not valid UTF-8 at byte \\x{:02X}: save the file as UTF-8",
        path, line, static_cast<unsigned char>(text[*at])));
    return input;  // keys and values could not be shown
  }
  Parser parser(input);
  parser.read_file_text(text);
  for (const std::string& override_text : overrides)
    parser.read_override(override_text);
  if (saved != nullptr) parser.take_from(*saved);
  parser.take_scheme_defaults();
  parser.finish();
  return input;
}

std::string echo_input(const ParsedInput& input) {
  std::string text =
      "# The input of a run, resolved: every key in use. It runs as it is.\n";
  std::string section;
  for (const Key& key : key_table()) {
    const auto value = input.resolved.find(key.name);
    if (value == input.resolved.end()) continue;
    if (section != key.section()) {
      section = key.section();
      text += fmt::format("\n[{}]\n", section);
    }
    text += fmt::format("{} = {}\n", key.word(), value->second);
  }
  return text;
}

void refuse_errors(const ParsedInput& input) {
  if (input.errors.empty()) return;
  throw Error(ExitCode::kBadInput, join(input.errors, "\nerror: "));
}

void forget_by_worker(std::map<std::string, std::string>& saved) {
  for (const Key& key : key_table())
    if (key.is_by_worker) saved.erase(key.name);
  for (const char* key : {"network.mbit_s", "network.latency_us"})
    if (is_list_of_links(key, saved)) saved.erase(key);
}

void forget_virtual_time(std::map<std::string, std::string>& saved) {
  saved.erase(kVirtualLimit);
  if (const auto found = saved.find(kEpisodes); found != saved.end())
    found->second = without_links(found->second);
}

bool makes_a_new_run(const std::string& key) {
  const std::string section = key.substr(0, key.find('.'));
  const auto is_it = [&](const std::string& name) { return name == section; };
  return std::ranges::any_of(std::array{"optimizer", "schedule", "sync",
                                        "compress", "topology", "data"},
                             is_it) ||
         std::ranges::any_of(scheme_table(), is_it, &SchemeInfo::keyword);
}

std::vector<std::string> resume_conflicts(
    const std::map<std::string, std::string>& saved,
    const std::map<std::string, std::string>& now,
    Workers workers) {
  std::vector<std::string> names;
  for (const Key& key : key_table()) names.push_back(key.name);
  for (const auto& entry : saved)  // of another version of the program
    if (find_key(entry.first) == nullptr) names.push_back(entry.first);
  const std::string use_then = use_of_length(saved);
  const std::string use = use_then.empty() ? use_of_length(now) : use_then;
  const Options then = options_of(saved);
  const bool is_other_world =
      has_virtual_costs(saved) != has_virtual_costs(now);

  std::vector<std::string> lines;
  for (const std::string& name : names) {
    const auto old = saved.find(name), current = now.find(name);
    const bool is_one_sided = old == saved.end() || current == now.end();
    if (old == saved.end() && current == now.end()) continue;
    if (is_one_sided && is_virtual_cost(name)) continue;
    const Key* key = find_key(name);
    if (workers == Workers::kMayDiffer &&
        ((key && key->is_by_worker) || is_list_of_links(name, saved) ||
         is_list_of_links(name, now)))
      continue;
    // An earlier version used this key where today's rules do not.
    if (key && current == now.end() && reason_unused(*key, then)) continue;
    const std::string before =
        key == nullptr ? old->second : value_then(*key, saved, then);
    const std::string after = current == now.end() ? kNotUsed : current->second;
    if (before == after || are_same_number(before, after)) continue;
    if (name == kEpisodes && is_other_world &&
        without_links(before) == without_links(after))
      continue;
    if (name == kVirtualLimit && is_other_world) continue;
    const OnResume rule = key == nullptr ? OnResume::kFixed : key->on_resume;
    if (rule == OnResume::kMayChange) continue;
    if (rule == OnResume::kMayExtend && use.empty()) continue;
    lines.push_back(fmt::format(
        "{}: was {}, now {}: not allowed to change on resume{}", name, before,
        after, rule == OnResume::kMayExtend ? ", because " + use : ""));
  }
  return lines;
}

std::vector<std::string> condensed(const std::vector<std::string>& conflicts) {
  const auto is_follower = [](const std::string& line) {
    return line.find(fmt::format(": was {}, ", kNotUsed)) !=
               std::string::npos ||
           line.find(fmt::format(", now {}:", kNotUsed)) != std::string::npos;
  };
  std::vector<std::string> lines, followers;
  for (const std::string& line : conflicts)
    if (is_follower(line)) followers.push_back(line.substr(0, line.find(':')));
  if (followers.size() < 2 || followers.size() == conflicts.size())
    return conflicts;
  for (const std::string& line : conflicts)
    if (!is_follower(line)) lines.push_back(line);
  lines.push_back("used by only one of the two inputs: " +
                  join(followers, ", "));
  return lines;
}

}  // namespace syncopate
