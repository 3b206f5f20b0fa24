// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/communicator.h"

#include <fmt/core.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

#include "comm/nccl/nccl_functions.h"

namespace syncopate {
namespace {

constexpr std::chrono::seconds kAbortLimit{10};

std::string first_line(const char* text) {
  return text == nullptr ? "" : std::string(text, std::strcspn(text, "\n"));
}

// Never frees communicators to which the library may still write.
void abandon(SharedCommunicator communicator) {
  static std::mutex mutex;
  static std::vector<SharedCommunicator> abandoned;
  const std::lock_guard lock(mutex);
  abandoned.push_back(std::move(communicator));
}

}  // namespace

// Aborts all concurrently: aborting one waits for the device, where the work of
// another may be what is stuck.
void abort_all(const std::vector<SharedCommunicator>& communicators) {
  struct Progress {
    std::mutex mutex;
    std::condition_variable changed;
    size_t num_left = 0;
  };
  const auto progress = std::make_shared<Progress>();
  for (const SharedCommunicator& communicator : communicators) {
    if (communicator->get() == nullptr) {
      abandon(communicator);
      continue;
    }
    const auto end_it = [progress, communicator] {
      nccl_functions().comm_abort(communicator->get());
      const std::lock_guard lock(progress->mutex);
      --progress->num_left;
      progress->changed.notify_all();
    };
    {
      const std::lock_guard lock(progress->mutex);
      ++progress->num_left;
    }
    try {
      std::thread(end_it).detach();
    } catch (const std::system_error&) {  // no thread available
      end_it();
    }
  }
  std::unique_lock lock(progress->mutex);
  progress->changed.wait_for(lock, kAbortLimit,
                             [&] { return progress->num_left == 0; });
}

std::string explain(ncclResult_t result, ncclComm_t communicator) {
  const NcclFunctions& nccl = nccl_functions();
  const std::string meaning = first_line(nccl.get_error_string(result));
  const std::string said = first_line(nccl.get_last_error(communicator));
  return said.empty() ? meaning : fmt::format("{} ({})", meaning, said);
}

ExitCode exit_code_of(ncclResult_t result) {
  return result == ncclRemoteError || result == ncclSystemError
             ? ExitCode::kPeerLost
             : ExitCode::kInternal;
}

}  // namespace syncopate
