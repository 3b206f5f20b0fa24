#include "config/config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <variant>

#include "base/file.h"
#include "base/text.h"
#include "config/conflicts.h"
#include "config/episodes.h"
#include "config/ini.h"
#include "config/value.h"
#include "sync/scheme.h"

namespace syncopate {
namespace {

constexpr int kCommandLine = std::numeric_limits<int>::max() - 1;
constexpr int kNowhere = std::numeric_limits<int>::max();
constexpr int64_t kLargestInput = 1 << 20;  // an input is a page or two

// Returns whether the schedule depends on run.epochs and run.steps: if it spans
// the run's length and schedule.horizon is not set.
bool hangs_on_length(const std::map<std::string, std::string>& values) {
  const auto horizon = values.find("schedule.horizon");
  return horizon != values.end() && horizon->second == "0";
}

// Returns whether a key that the user does not set has its value from `saved`.
// `has_length`: the user sets the length of the run, by this key or another.
bool is_taken(const Key& key, const SavedInput& saved, bool has_length) {
  if (saved.take != SavedInput::Take::kAll && key.section() != "model")
    return false;
  switch (key.on_resume) {
    case OnResume::kFixed:
      return true;
    case OnResume::kMayChange:
      return false;
    case OnResume::kMayExtend:
      return !has_length || hangs_on_length(saved.values);
  }
  return false;
}

class Parser {
 public:
  explicit Parser(ParsedInput& input) : input_(input) {}

  void read_file_text(const std::string& text) {
    const IniFile file = parse_ini(text);
    for (const IniFile::Mistake& mistake : file.mistakes)
      complain(mistake.line, mistake.text);
    for (const IniFile::Header& header : file.headers)
      check_section(header.section, header.line);
    for (const IniFile::Setting& setting : file.settings)
      set(setting.section, setting.key, setting.value, setting.line);
  }

  // "--section.key=value"
  void read_override(const std::string& text) {
    const size_t equals = text.find('=');
    const std::string name(trim(std::string_view(text).substr(0, equals)));
    const size_t dot = name.find('.');
    if (!name.starts_with("--") || equals == std::string::npos ||
        dot == std::string::npos) {
      complain(kCommandLine,
               fmt::format("expected --section.key=value, found {}",
                           in_quotes(text)));
      return;
    }
    const std::string section = name.substr(2, dot - 2);
    const std::string value(trim(std::string_view(text).substr(equals + 1)));
    if (!check_section(section, kCommandLine)) return;
    if (!is_ini_value(value)) {
      complain(kCommandLine,
               fmt::format("{}: {} cannot stand in an input file: no control "
                           "characters, no # first or behind a blank",
                           name.substr(2), in_quotes(value)));
      return;
    }
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
      const auto found = saved.values.find(key.name);
      const std::string& text =
          found == saved.values.end() ? key.formerly : found->second;
      // A value that is no longer accepted shows as a conflict.
      if (!text.empty() && !parse_value(key, text, input_.options))
        taken_.insert(key.name);
    }
  }

  void finish() {
    for (const auto& [name, line] : lines_) {
      const auto reason = reason_if_unused(*find_key(name));
      if (reason) complain(line, name + ": " + *reason);
      input_.given[name] = where(line);
    }
    find_conflicts(
        input_.options,
        [this](const std::string& name) { return is_sound(name); },
        [this](const std::string& name, const std::string& what) {
          complain(line_of(name), name + ": " + what);
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
    std::stable_sort(
        complaints_.begin(), complaints_.end(),
        [](const auto& a, const auto& b) { return a.line < b.line; });
    for (const Complaint& complaint : complaints_)
      input_.errors.push_back(where(complaint.line) + ": " + complaint.text);
  }

 private:
  struct Complaint {
    int line;
    std::string text;
  };

  std::string where(int line) const {
    if (line == kCommandLine) return "command line";
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
    if (std::find(names.begin(), names.end(), section) != names.end())
      return true;
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
      if (std::find(parts.begin(), parts.end(), key.word()) != parts.end())
        within.push_back(key.name);
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
    const std::vector<std::string> sections = section_names();
    if (std::find(sections.begin(), sections.end(), section) == sections.end())
      return;  // one line for the section is enough
    const std::string name = section + '.' + word;
    const Key* key = find_key(name);
    if (key == nullptr) {
      complain(line, name + ": unknown key" + suggestion(section, word));
      return;
    }
    const auto earlier = lines_.find(name);
    if (earlier != lines_.end() &&
        (line != kCommandLine || earlier->second == kCommandLine)) {
      complain(line, line == kCommandLine
                         ? name + ": is given twice, expected once"
                         : fmt::format("{}: is given twice, first in line {}; "
                                       "expected once",
                                       name, earlier->second));
      return;
    }
    lines_[name] = line;
    if (const auto wrong = parse_value(*key, value, input_.options)) {
      complain(line, name + ": " + *wrong);
      unsound_.insert(name);
    }
  }

  // Omits errors that are consequences of another one.
  std::optional<std::string> reason_if_unused(const Key& key) const {
    for (const UsedWhen& rule : key.used_when)
      if (unsound_.contains(rule.key)) return std::nullopt;
    return reason_unused(key, input_.options);
  }

  bool is_sound(const std::string& name) const {
    const Key& key = *find_key(name);
    for (const UsedWhen& rule : key.used_when)
      if (unsound_.contains(rule.key)) return false;
    return !unsound_.contains(name) && !reason_unused(key, input_.options);
  }

  int line_of(const std::string& name) const {
    const auto found = lines_.find(name);
    return found == lines_.end() ? kNowhere : found->second;
  }

  ParsedInput& input_;
  std::map<std::string, int> lines_;  // where a key was last set
  std::set<std::string> unsound_;     // keys with a refused value
  std::set<std::string> taken_;       // keys with a value of a saved run
  std::vector<Complaint> complaints_;
};

bool is_virtual_cost(const std::string& name) {
  return name.starts_with("compute.") || name.starts_with("network.");
}

bool is_by_worker(const std::string& name) {
  return name == "run.workers" || name == "compute.speed" ||
         name.starts_with("stragglers.");
}

constexpr const char* kNotUsed = "not used";
constexpr const char* kEpisodes = "stragglers.episodes";
constexpr const char* kVirtualLimit = "run.virtual_limit_s";

// Returns the value of stragglers.episodes without those of links.
std::string without_links(const std::string& value) {
  const Key& key = *find_key(kEpisodes);
  Options options;
  if (parse_value(key, value, options)) return value;
  std::erase_if(options.stragglers.episodes, [](const std::string& text) {
    Episode episode;
    return parse_episode(text, episode).empty() &&
           episode.kind == Episode::Kind::kLink;
  });
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
    const auto found = saved.find(key.name);
    const std::string& text =
        found == saved.end() ? key.formerly : found->second;
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

ParsedInput parse_input(const std::string& path,
                        const std::vector<std::string>& overrides,
                        const SavedInput* saved) {
  ParsedInput input;
  input.path = path;
  const std::string text = read_file(path, kLargestInput);
  if (text.find('\0') != std::string::npos)
    fail(ExitCode::kBadInput, "{}: is no text: it holds a zero byte", path);
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

void check_world(ParsedInput& input, int ranks) {
  const Options& options = input.options;
  const auto complain = [&](const std::string& name, const std::string& what) {
    const auto place = input.given.find(name);
    input.errors.push_back(
        (place == input.given.end() ? input.path : place->second) + ": " +
        name + ": " + what);
  };
  // Checks lists by worker if run.workers does not state the number of workers.
  const auto by_worker = [&](const char* name, size_t numbers) {
    if (options.run.workers != 0 || numbers <= 1 ||
        static_cast<int>(numbers) == ranks ||
        (ranks > 1 && is_virtual_cost(name)))
      return;
    complain(name,
             ranks == 1
                 ? fmt::format("has {} numbers for 1 worker (run.workers = "
                               "auto), expected one, or run.workers = {}",
                               numbers, numbers)
                 : fmt::format("has {} numbers for {} MPI ranks, expected one, "
                               "or one for each",
                               numbers, ranks));
  };
  by_worker("stragglers.factor", options.stragglers.factor.size());
  by_worker("data.batch_by_worker", options.data.batch_by_worker.size());
  by_worker("compute.speed", options.compute.speed.size());
  by_worker("network.latency_us", options.network.latency_us.size());
  by_worker("network.mbit_s", options.network.mbit_s.size());
  if (options.run.workers == 0)  // else they were judged with the rest
    if (const std::string mistake =
            episodes_mistake(options.stragglers.episodes, ranks);
        !mistake.empty())
      complain("stragglers.episodes", mistake);
  if (ranks == 1) return;
  if (options.run.virtual_limit_s > 0)
    complain("run.virtual_limit_s",
             fmt::format("is virtual time of workers in one process; {} MPI "
                         "ranks take wall time: end at a result (run.target) "
                         "or before a time limit (run.time_limit_s, or the "
                         "Slurm job's)",
                         ranks));
  if (options.run.workers != 0 && options.run.workers != ranks)
    complain("run.workers",
             fmt::format("is {}, but there are {} MPI ranks, one per worker; "
                         "expected auto or {}",
                         options.run.workers, ranks, ranks));
  for (const std::string& text : options.stragglers.episodes) {
    Episode episode;
    if (!parse_episode(text, episode).empty() ||
        episode.kind != Episode::Kind::kLink)
      continue;
    complain("stragglers.episodes",
             fmt::format("{}: slow links cost virtual time between workers in "
                         "one process and cannot be made among {} MPI ranks",
                         text, ranks));
  }
  for (const auto& given : input.given)
    if (is_virtual_cost(given.first))
      complain(given.first,
               fmt::format("is used by workers in one process, not by {} MPI "
                           "ranks",
                           ranks));
  std::erase_if(input.resolved,
                [](const auto& entry) { return is_virtual_cost(entry.first); });
}

void refuse_errors(const ParsedInput& input) {
  if (input.errors.empty()) return;
  throw Error(ExitCode::kBadInput, join(input.errors, "\nerror: "));
}

void forget_by_worker(std::map<std::string, std::string>& saved) {
  for (const char* key :
       {"run.workers", "compute.speed", "data.batch_by_worker",
        "stragglers.factor", "stragglers.delay_workers", kEpisodes})
    saved.erase(key);
  std::erase_if(saved, [](const auto& entry) {
    return entry.first.starts_with("network.") &&
           entry.second.find_first_of(" ,") != std::string::npos;
  });
}

void forget_virtual_time(std::map<std::string, std::string>& saved) {
  saved.erase(kVirtualLimit);
  if (const auto found = saved.find(kEpisodes); found != saved.end())
    found->second = without_links(found->second);
}

bool makes_a_new_run(const std::string& key) {
  const std::string section = key.substr(0, key.find('.'));
  for (const char* how :
       {"optimizer", "schedule", "sync", "compress", "topology", "data"})
    if (section == how) return true;
  return std::ranges::any_of(scheme_table(), [&](const SchemeInfo& info) {
    return info.keyword == section;
  });
}

std::vector<std::string> resume_conflicts(
    const std::map<std::string, std::string>& saved,
    const std::map<std::string, std::string>& now,
    Workers workers) {
  std::vector<std::string> names;
  for (const Key& key : key_table()) names.push_back(key.name);
  for (const auto& entry : saved)  // of another version of the program
    if (find_key(entry.first) == nullptr) names.push_back(entry.first);
  const bool may_extend = !hangs_on_length(saved) && !hangs_on_length(now);
  const Options then = options_of(saved);
  const bool is_other_world =
      has_virtual_costs(saved) != has_virtual_costs(now);

  std::vector<std::string> lines;
  for (const std::string& name : names) {
    const auto old = saved.find(name), current = now.find(name);
    const bool is_one_sided = old == saved.end() || current == now.end();
    if (old == saved.end() && current == now.end()) continue;
    if (is_one_sided && is_virtual_cost(name)) continue;
    if (workers == Workers::kMayDiffer && is_by_worker(name)) continue;
    const Key* key = find_key(name);
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
    if (rule == OnResume::kMayExtend && may_extend) continue;
    lines.push_back(fmt::format(
        "{}: was {}, now {}: not allowed to change on resume{}", name, before,
        after,
        rule == OnResume::kMayExtend
            ? " while schedule.horizon = 0 lays the schedule out over the "
              "run's length"
            : ""));
  }
  return lines;
}

}  // namespace syncopate
