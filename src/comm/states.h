// State behind the handles of endpoint.h: each world derives its own from
// these.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "comm/endpoint.h"

namespace syncopate {

struct RequestState {
  virtual ~RequestState() = default;
};

struct TaskState {
  virtual ~TaskState() = default;
};

// "a message from 2 with tag 1024": the same wording in both worlds.
std::string describe_wait(int from, Tag tag);

// Describes a receive of `expected_bytes` that met a message of another size.
std::string describe_size_mismatch(int to,
                                   int from,
                                   Tag tag,
                                   int64_t expected_bytes,
                                   int64_t sent_bytes);

}  // namespace syncopate
