// A communicator of NCCL, how it ends, and what its errors mean.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"

namespace syncopate {

// Shared, because the library may write the handle late, and an abort that
// hangs is left behind with it.
struct Communicator {
  ncclComm_t handle = nullptr;
};
using SharedCommunicator = std::shared_ptr<Communicator>;

// Returns when all have ended, or after ten seconds.
void abort_all(const std::vector<SharedCommunicator>& communicators);

// "what the code means (what the library last said)"; any communicator, or
// null.
std::string explain(ncclResult_t result, ncclComm_t communicator);

// Whether it tells of a peer or of a mistake of ours.
ExitCode exit_code_of(ncclResult_t result);

}  // namespace syncopate
