// The samples of questions and clicks as one HDF5 file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/command_line.h"
#include "run/session.h"

namespace syncopate {

// prepare squad|criteo INPUT.ini -o FILE.h5, of rank 0.
void prepare_samples(Session& session, const CommandLine& line);

}  // namespace syncopate
