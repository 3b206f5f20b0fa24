// From an input file and the command line to Options, with every mistake named.
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

struct ParsedInput {
  Options options;
  // Every key in use with its resolved value as text: what is echoed.
  std::map<std::string, std::string> resolved;
  // Keys that the user set, and where: "FILE:LINE" or "command line".
  std::map<std::string, std::string> given;
  // Keys that the user did not set and whose value is a saved run's, not the
  // default.
  std::map<std::string, std::string> taken;
  std::vector<std::string> errors;  // "WHERE: key: what (did you mean ...?)"
  std::string path;
};

// The resolved input of a run that is gone on from, or whose model is used.
struct SavedInput {
  enum class Take : uint8_t {
    kAll,      // every key that a resumed run may not change
    kModel,    // keys of [model]: a new run starts from the model
    kNetwork,  // keys of [model]: the model is evaluated, nothing is trained
  };
  std::map<std::string, std::string> values;  // key -> text
  Take take = Take::kAll;
};

// `overrides` are "--section.key=value". Never throws for what a user wrote in
// an input file: all mistakes are in `errors`, at once. A missing file is
// Error(kInputMissing), one that is no text (or over 1 MiB) Error(kBadInput).
// Keys that neither sets take their value from `saved`; one that `saved` lacks
// as well has the value that runs from before that key had (Key::formerly).
ParsedInput parse_input(const std::string& path,
                        const std::vector<std::string>& overrides,
                        const SavedInput* saved = nullptr);

// The resolved input as a runnable INI file.
std::string echo_input(const ParsedInput& input);

// What only the world decides: run.workers and compute.speed against the
// number of MPI ranks (1: workers in one process), virtual costs under several
// ranks. Adds to `errors`, and takes what this world does not use out of
// `resolved`.
void check_world(ParsedInput& input, int ranks);

// Throws one Error(kBadInput) if there are any: the lines, each but the first
// behind "error: ", which main() puts before the first.
void refuse_errors(const ParsedInput& input);

// Keys whose values differ between a run and its resumption although they may
// not: one line each, from two resolved inputs. Keys that may change:
// run.stop_at, run.epochs, ... as inputs/README.md lists. Virtual costs that
// only one of the two worlds uses are not compared. A key that `saved` lacks
// because it is newer than that run counts as Key::formerly.
// Slow links (stragglers.episodes) are such costs.
// kMayDiffer: neither is the number of workers, nor what is said by worker.
enum class Workers : uint8_t { kAlike, kMayDiffer };
// Takes out of a saved run's keys what only its number of workers gives a
// meaning: lists by worker, and episodes of workers by rank.
void forget_by_worker(std::map<std::string, std::string>& saved);
// Takes the slow links out of stragglers.episodes: several ranks have none.
void forget_slow_links(std::map<std::string, std::string>& saved);
// Whether another value of this key makes a run with checkpoint.resume = PATH a
// new one: how it learns and from what, not where and how fast.
bool makes_a_new_run(const std::string& key);
std::vector<std::string> resume_conflicts(
    const std::map<std::string, std::string>& saved,
    const std::map<std::string, std::string>& now,
    Workers workers = Workers::kAlike);

// Multiplies the lengths in steps that a resumed run may not change: those of
// N workers times N/M are M workers' of as many samples. At least 1 step stays.
void scale_lengths(Options& options, double factor);

// `list keys`: the table as text; and as Markdown for inputs/README.md.
std::string list_keys();
std::string list_keys_markdown();

}  // namespace syncopate
