// An NCCL communicator, its termination, and the meaning of its errors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"

namespace syncopate {

// Shared because the library may write the handle late; a hanging abort is left
// behind together with it.
struct Communicator {
  ncclComm_t handle = nullptr;

  // May be called while the library writes it.
  ncclComm_t get() { return std::atomic_ref(handle).load(); }
};
using SharedCommunicator = std::shared_ptr<Communicator>;

// Returns when all have ended, or after ten seconds.
void abort_all(const std::vector<SharedCommunicator>& communicators);

// Returns "what the code means (the library's last message)". `communicator`
// may be any, or null.
std::string explain(ncclResult_t result, ncclComm_t communicator);

// Classifies the result as a lost peer or a bug in this program.
ExitCode exit_code_of(ncclResult_t result);

}  // namespace syncopate
