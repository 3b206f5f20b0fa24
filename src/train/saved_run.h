// What a run directory, or the checkpoint that checkpoint.resume names, says of
// the run that `train` would go on from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "run/session.h"

namespace syncopate {

struct SavedRun {
  // Its keys, and which of them are taken where the user gives none. kModel: a
  // new run starts from its model ("warm start").
  SavedInput input;
  int workers = 1;
  // Whose steps lengths are in: the number of workers that it began with.
  int length_workers = 1;
  // Of another run's folder: the digest of its data. A new run starts from its
  // model where the data are others. Else "".
  std::string data;
  // Of a warm start: what speaks against going on, "KEY: was ..., now ...".
  std::vector<std::string> differences;

  bool goes_on() const { return input.take == SavedInput::Take::kAll; }
  bool is_warm_start() const { return input.take == SavedInput::Take::kModel; }
};

// Why a run of these options cannot go on with another number of workers; ""
// if it can.
std::string resize_obstacle(const Options& options);

// Rank 0's answer, the same on every rank; nothing where a run starts anew or
// the input has mistakes (which build_engine tells). Collective.
//
// A run goes on from the checkpoints of its own directory. If it has none, it
// goes on from the one that checkpoint.resume names, or starts a new run from
// its model: if a key of makes_a_new_run() is given another value, or if the
// run cannot go on with as many workers as there are now.
std::optional<SavedRun> find_saved_run(
    Session& session,
    const std::string& input_path,
    const std::vector<std::string>& overrides);

// The key in which a checkpoint keeps SavedRun::length_workers.
inline constexpr const char* kLengthWorkers = "length_workers";

// For the log: "optimizer.lr = 0.1, sync.scheme = asp"; "" where none is taken.
std::string describe_taken(const ParsedInput& input);

}  // namespace syncopate
