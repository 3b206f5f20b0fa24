// Turns an input file and the command line into Options and reports every
// mistake.
//
// One table (keys.cpp) holds each key's section, name, type, default, bounds,
// choices, one sentence of documentation, and when it is used; parsing,
// validation, the echo, `list keys` and inputs/README.md come from it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "config/options.h"

namespace syncopate {

inline constexpr const char* kCommandLinePlace = "command line";

struct ParsedInput {
  Options options;
  // Every key in use with its resolved value as text, as it is echoed.
  std::map<std::string, std::string> resolved;
  // Keys that the user set, and where: "FILE:LINE" or "command line".
  std::map<std::string, std::string> given;
  // Keys that the user did not set and whose value comes from a saved run and
  // differs from the default.
  std::map<std::string, std::string> taken;
  // In a phase or variant (train/variants.h): keys given for the whole input
  // that it does not use.
  std::vector<std::string> unused;
  std::vector<std::string> errors;  // "WHERE: key: what (did you mean ...?)"
  std::string path;
  std::vector<std::string> overrides;  // with which it was parsed

  // Returns where the user set `key`, or the path if it is not given.
  std::string place_of(const std::string& key) const;
  // Throws Error(kBadInput), "PLACE: KEY: WHAT", for a mistake "KEY: WHAT".
  [[noreturn]] void refuse(const std::string& mistake) const;
};

// The resolved input of a saved run that is resumed, or whose model is used.
struct SavedInput {
  enum class Take : uint8_t {
    kAll,      // every key that a resumed run may not change
    kModel,    // keys of [model]: a new run starts from the model
    kNetwork,  // keys of [model]: the model is evaluated, nothing is trained
  };
  std::map<std::string, std::string> values;  // key -> text
  Take take = Take::kAll;
};

// `overrides` are "--section.key=value". Mistakes in the text of an input file
// are all collected in `errors` and never thrown. Throws Error(kInputMissing)
// if the file is missing, Error(kBadInput) if it is not text or is larger than
// 1 MiB. Keys that neither sets take their value from `saved`; if `saved` lacks
// one as well, it has the value from before the key existed (Key::formerly).
ParsedInput parse_input(const std::string& path,
                        const std::vector<std::string>& overrides,
                        const SavedInput* saved = nullptr);

// Returns the resolved input as a runnable INI file.
std::string echo_input(const ParsedInput& input);

// Throws one Error(kBadInput) with all errors, if there are any. Each line but
// the first begins with "error: ", which main() adds to the first.
void refuse_errors(const ParsedInput& input);

// Removes the keys of a saved run that only make sense for its number of
// workers: lists by worker, and delays and episodes of workers by rank.
void forget_by_worker(std::map<std::string, std::string>& saved);
// Removes what MPI ranks cannot have: slow links from stragglers.episodes, and
// run.virtual_limit_s, but not the run.steps that it has become.
void forget_virtual_time(std::map<std::string, std::string>& saved);
// Returns whether another value of this key makes a run with
// checkpoint.resume = PATH a new one. This holds for keys that decide how the
// run learns and from what, not where and how fast it runs.
bool makes_a_new_run(const std::string& key);
// Whether a resumed run may have another number of workers.
enum class Workers : uint8_t { kAlike, kMayDiffer };
// Compares two resolved inputs and returns one line for each key that differs
// between a run and its resumption although it may not change. inputs/README.md
// lists the keys that may, such as run.stop_at. Virtual costs, including slow
// links (stragglers.episodes), are not compared if only one of the two worlds
// has them. A key that `saved` lacks because it is newer than that run counts
// as Key::formerly. With kMayDiffer, the number of workers and values given by
// worker are not compared either.
std::vector<std::string> resume_conflicts(
    const std::map<std::string, std::string>& saved,
    const std::map<std::string, std::string>& now,
    Workers workers = Workers::kAlike);
// Returns such lines for the user: keys that only one of the two inputs uses
// follow from other keys, and become one line.
std::vector<std::string> condensed(const std::vector<std::string>& conflicts);

// Multiplies lengths in steps, other than those that may change on resume, by
// `factor`: N/M converts lengths of N workers to those of M workers with as
// many samples. A positive length stays at least 1 step.
void scale_lengths(Options& options, double factor);

// Returns the table of keys as text, for `list keys`, and as Markdown, for
// inputs/README.md. `word` selects a key, a section, or what a choice of this
// name (a scheme, a network, ...) uses; "": all. Throws Error(kUsage) if it is
// none of them.
std::string list_keys(const std::string& word = "");
std::string list_keys_markdown();

}  // namespace syncopate
