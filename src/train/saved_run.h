// The run that `train` would resume, as described by a run directory or by the
// checkpoint that checkpoint.resume names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "run/session.h"

namespace syncopate {

struct SavedRun {
  // Its keys, and which of them apply if the user does not give them. kModel: a
  // new run starts from its model ("warm start").
  SavedInput input;
  int workers = 1;
  // The number of workers that it began with. Its lengths count their steps.
  int length_workers = 1;
  // The digest of its data if it is another run's checkpoint, else "". If the
  // data differ, a new run starts from its model.
  std::string data;
  // kNetwork: what the checkpoint says about its samples, by name.
  std::map<std::string, std::string> facts = {};
  // The reasons for a warm start, as "KEY: was ..., now ...".
  std::vector<std::string> differences;

  bool goes_on() const { return input.take == SavedInput::Take::kAll; }
  bool is_warm_start() const { return input.take == SavedInput::Take::kModel; }
};

// Returns why a run with these options cannot resume with another number of
// workers, or "" if it can.
std::string resize_obstacle(const Options& options);

// Returns rank 0's answer on every rank: nullopt if there is nothing to resume.
// Mistakes in the input are left to build_engine. Collective.
//
// A run resumes from the checkpoints of its own directory. If it has none, it
// resumes from the one that checkpoint.resume names, or starts a new run from
// its model: if a key of makes_a_new_run() has another value, or if the run
// cannot resume with the present number of workers.
std::optional<SavedRun> find_saved_run(
    Session& session,
    const std::string& input_path,
    const std::vector<std::string>& overrides);

// The key in which a checkpoint keeps SavedRun::length_workers.
inline constexpr const char* kLengthWorkers = "length_workers";

// Returns, for the log, the keys taken from the saved run, such as
// "optimizer.lr = 0.1, sync.scheme = asp"; "" if there are none.
std::string describe_taken(const ParsedInput& input);

}  // namespace syncopate
