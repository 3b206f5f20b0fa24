#include "train/variants.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "config/value.h"
#include "sync/scheme.h"

namespace syncopate {
namespace {

// Returns whether one of "--section.key=value" gives the key.
bool gives(const std::vector<std::string>& overrides, const std::string& key) {
  return std::ranges::any_of(overrides, [&](const std::string& text) {
    return text.starts_with("--" + key + "=");
  });
}

// Returns whether phases may differ in the key `name`, "section.key".
bool may_differ_by_phase(const std::string& name) {
  const std::string section = name.substr(0, name.find('.'));
  const bool is_of_composite =
      std::ranges::any_of(scheme_table(), [&](const SchemeInfo& info) {
        return info.is_composite && info.keyword == section;
      });
  // These belong to the run as a whole: what connects workers, the buckets, and
  // an order of arrivals, which counts the updates of a whole run.
  constexpr std::array kOfRun = {"sync.scheme", "sync.transport",
                                 "sync.tables", "sync.bucket_mb",
                                 "asp.record",  "asp.replay"};
  return makes_a_new_run(name) && section != "data" && !is_of_composite &&
         std::ranges::find(kOfRun, name) == kOfRun.end();
}

// A phase or variant may make another choice, such as another optimizer, for
// which keys of the whole input are unused. That is no error unless the key is
// one of `own`, the variant's overrides: the key has its default then.
void forgive_unused(ParsedInput& input, const std::vector<std::string>& own) {
  for (const auto& [name, place] : input.given) {
    const std::string set = "--" + name + "=";
    const bool is_own = std::any_of(
        own.begin(), own.end(),
        [&](const std::string& text) { return text.starts_with(set); });
    const std::string unused = place + ": " + name + ": is used ";
    if (own.empty() || is_own) continue;
    const size_t forgiven = std::erase_if(
        input.errors,
        [&](const std::string& error) { return error.starts_with(unused); });
    if (forgiven == 0) continue;
    input.unused.push_back(name);
    const Key& key = *find_key(name);
    // A required text, such as data.path, has none; it keeps its value.
    parse_value(key, format_value(key, Options()), input.options);
  }
}

}  // namespace

ParsedInput parse_variant(const std::string& path,
                          const std::vector<std::string>& overrides,
                          const std::vector<std::string>& own,
                          const std::optional<SavedRun>& saved) {
  std::vector<std::string> all = overrides;
  for (const std::string& text : own) {
    const std::string key = text.substr(0, text.find('=') + 1);
    std::erase_if(all, [&](const std::string& earlier) {
      return earlier.starts_with(key);
    });
    all.push_back(text);
  }
  ParsedInput input = parse_input(path, all, saved ? &saved->input : nullptr);
  input.overrides = overrides;
  forgive_unused(input, own);
  return input;
}

std::vector<Options> phase_options(const ParsedInput& whole,
                                   const Options& used,
                                   const std::optional<SavedRun>& saved) {
  const SyncSwitchOptions& options = used.sync.sync_switch;
  const std::string& path = whole.path;
  const std::vector<std::string> schemes = phase_schemes(options);
  std::vector<std::vector<std::string>> of_phase(schemes.size());
  for (const std::string& text : options.overrides) {
    const size_t colon = text.find(':'), equals = text.find('=');
    const auto phase = parse_int(text.substr(0, colon));
    if (colon == std::string::npos || equals == std::string::npos ||
        equals < colon || !phase || *phase < 1 || *phase > std::ssize(schemes))
      fail(ExitCode::kBadInput,
           "{}: sync_switch.overrides: {}: expected PHASE:section.key=value "
           "with a phase from 1 to {}",
           path, text, schemes.size());
    const std::string name = text.substr(colon + 1, equals - colon - 1);
    if (!may_differ_by_phase(name))
      fail(ExitCode::kBadInput,
           "{}: sync_switch.overrides: {}: phases may differ in "
           "sync.collective, sync.wire and keys of optimizer, schedule, "
           "compress, topology and their schemes (not asp.record and "
           "asp.replay)",
           path, text);
    std::vector<std::string>& own = of_phase[*phase - 1];
    if (gives(own, name))
      fail(ExitCode::kBadInput,
           "{}: sync_switch.overrides: {}: {} is given twice for phase {}",
           path, text, name, *phase);
    own.push_back("--" + text.substr(colon + 1));
  }
  for (size_t phase = 0; phase < schemes.size(); ++phase) {
    std::vector<std::string>& own = of_phase[phase];
    for (const SchemeDefault& one :
         own_defaults(schemes[phase], [&](const std::string& key) {
           return whole.given.contains(key) || whole.taken.contains(key) ||
                  gives(own, key);
         }))
      own.push_back(fmt::format("--{}={}", one.key, one.value));
  }
  std::vector<Options> phases;
  for (size_t phase = 0; phase < schemes.size(); ++phase) {
    ParsedInput input =
        parse_variant(path, whole.overrides, of_phase[phase], saved);
    // The whole input is valid, so the phase's own keys cause these errors.
    for (std::string& error : input.errors) {
      const std::string from = "command line: ";
      if (error.starts_with(from)) error = error.substr(from.size());
      error = fmt::format("{}: sync_switch.overrides: phase {}: {}", path,
                          phase + 1, error);
    }
    refuse_errors(input);
    input.options.data = used.data;
    input.options.sync.scheme = schemes[phase];
    for (const std::string& text : of_phase[phase]) {
      const std::string name = text.substr(2, text.find('=') - 2);
      if (const auto unused = reason_unused(*find_key(name), input.options))
        fail(ExitCode::kBadInput, "{}: sync_switch.overrides: phase {}: {}: {}",
             path, phase + 1, name, *unused);
    }
    phases.push_back(input.options);
  }
  return phases;
}

}  // namespace syncopate
