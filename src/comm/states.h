// State behind the handles of endpoint.h: each world derives its own from
// these.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "comm/endpoint.h"

namespace syncopate {

struct RequestState {
  virtual ~RequestState() = default;
  uint64_t message = 0;  // of a trace (traced_endpoint.h), until it is received
};

struct TaskState {
  virtual ~TaskState() = default;
};

// Describes a receive of `expected_bytes` that met a message of another size.
std::string describe_size_mismatch(int to,
                                   int from,
                                   Tag tag,
                                   int64_t expected_bytes,
                                   int64_t sent_bytes);

}  // namespace syncopate
