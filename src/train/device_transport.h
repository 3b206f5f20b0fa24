// How gradients get from device to device in this run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "comm/device_collectives.h"
#include "train/engine.h"

namespace syncopate {

struct DeviceTransport {
  // Null: through host memory, by MPI or within the process.
  std::unique_ptr<DeviceCollectives> collectives;
  std::string text;  // for the log; empty where nothing leaves the host
};

// Collective: why NCCL cannot carry gradients between the devices of these
// ranks, each on its host; empty where it can.
std::string nccl_obstacle(const Device& device,
                          const std::string& host,
                          Endpoint& endpoint);

// Collective. `host`: this rank's. NCCL where every rank has a GPU of its own
// and the library is there (sync.transport = auto), else MPI through
// page-locked memory; neither between the workers of one process. Errors:
// AgreedError(kBadInput) where sync.transport = nccl cannot be had.
DeviceTransport choose_transport(const Engine& engine,
                                 const std::string& host,
                                 Endpoint& endpoint);

}  // namespace syncopate
