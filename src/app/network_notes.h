// What `train`, `simulate` and `advise` say about a described cluster.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/log.h"
#include "train/engine.h"

namespace syncopate {

// Logs which figures the prediction needs but the input does not give, and what
// is assumed instead.
void print_assumptions(Log& log, const Engine& engine);

// Logs the given costs of links that no message among the engine's workers
// passes, one line each.
void note_unused_links(Log& log, const Engine& engine);

}  // namespace syncopate
