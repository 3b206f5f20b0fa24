// At the start of a run under MPI: whether all ranks have the same input, data
// and run directory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "run/run_directory.h"
#include "train/engine.h"

namespace syncopate {

// Collective. Throws AgreedError(kBadInput), which names the lowest rank whose
// input or data differ from rank 0's, and what differs. Paths may differ, and
// so may what depends on a rank's host (threads, device).
void check_same_input(Session& session, const Engine& engine);
// Collective. Throws AgreedError(kBadInput) naming the rank unless all ranks
// have read the same checkpoint, given by its folder and digest.
void check_same_checkpoint(Session& session,
                           const std::string& folder,
                           const std::string& digest);

// Collective, once rank 0 has acquired the directory. Throws
// AgreedError(kCannotCreate), which names the lowest rank that does not see it
// or may not write to it; a directory that rank 0 has made is removed.
void check_shared_directory(Session& session, const RunDirectory& directory);

// Collective. Returns "2 threads", or "1 to 4 threads" if ranks differ.
std::string threads_of_ranks(Session& session, int threads);

}  // namespace syncopate
