// What a run directory, or the checkpoint that checkpoint.resume names, says of
// the run that `train` would go on from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/session.h"
#include "config/config.h"

namespace syncopate {

// Rank 0's answer, the same on every rank: the keys of that run, which those
// that the user does not give are taken from; nothing where a run starts anew
// or the input has mistakes (which build_engine tells). Collective.
std::optional<SavedInput> find_saved_input(
    Session& session,
    const std::string& input_path,
    const std::vector<std::string>& overrides);

// For the log: "optimizer.lr = 0.1, sync.scheme = asp"; "" where none is taken.
std::string describe_taken(const ParsedInput& input);

}  // namespace syncopate
