// The transport of gradients between devices.
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
  std::string text;  // for the log; empty if nothing leaves the host
};

// Collective. Returns why NCCL cannot carry gradients between the devices of
// these ranks, or "" if it can. `host` is this rank's.
std::string nccl_obstacle(const Device& device,
                          const std::string& host,
                          Endpoint& endpoint);

// Collective. `host` is this rank's. With sync.transport = auto, chooses NCCL
// if every rank has its own GPU and the library is available, else MPI, of
// messages in device memory if it takes them, otherwise through page-locked
// memory; workers of one process use neither. Throws
// AgreedError(kBadInput) if sync.transport = nccl is not possible.
DeviceTransport choose_transport(const Engine& engine,
                                 const std::string& host,
                                 Endpoint& endpoint);

}  // namespace syncopate
