// How much memory this process may still take, by whatever limits it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"

namespace syncopate {

struct MemoryLeft {
  int64_t bytes;
  std::string limit;  // what sets it: "ulimit -v", "the cgroup's limit"
  bool is_address_space = false;  // which counts what is reserved, too
};

// Host memory as of now: the least of what the host has, what the control
// group and what the resource limits allow. Of what processes have in common,
// this one's share among `processes` of the host.
MemoryLeft host_memory_left(int processes);

// The same for limits of control groups alone, where files like those of
// /proc/self/cgroup and /sys/fs/cgroup lie; INT64_MAX bytes: none.
MemoryLeft cgroup_memory_left(const fs::path& membership,
                              const fs::path& mounted);

}  // namespace syncopate
