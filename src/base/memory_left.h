// How much memory this process may still allocate under all limits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"

namespace syncopate {

struct MemoryLeft {
  int64_t bytes;
  std::string limit;  // for messages: "ulimit -v", "the memory of this host"
  bool is_address_space = false;  // reserved address space counts too
};

// Returns the host memory available now: the minimum over the host's free
// memory, the control group's limit and the resource limits. Memory that
// processes share is divided equally among the `processes` of this host.
MemoryLeft host_memory_left(int processes);

// Considers only the limits of control groups: `membership` and `mounted` are
// laid out like /proc/self/cgroup and /sys/fs/cgroup. INT64_MAX bytes means no
// limit.
MemoryLeft cgroup_memory_left(const fs::path& membership,
                              const fs::path& mounted);

// Returns the most memory that this process has had resident.
int64_t peak_memory_bytes();

}  // namespace syncopate
