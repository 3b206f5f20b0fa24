// What results files say about the program and the input that made them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "results/results.h"
#include "run/session.h"
#include "train/engine.h"

namespace syncopate {

// Writes build_facts(), the resolved input, the command line, and the names and
// sizes that scripts select runs by.
void state_engine(Results& results,
                  const Session& session,
                  const Engine& engine);

}  // namespace syncopate
