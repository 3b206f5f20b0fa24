// What the worker's thread hands to the communication thread: a message or
// native collective in flight, or a task.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/blocks.h"
#include "comm/fiber.h"
#include "comm/states.h"

namespace syncopate::mpi {

// The communication thread writes `done` last, and the worker's thread reads
// nothing else before it is set.
struct Operation : RequestState {
  enum class Kind : uint8_t { kSend, kReceive, kReceiveAny, kAllReduce };
  Kind kind = Kind::kSend;
  MPI_Comm comm = MPI_COMM_NULL;
  std::byte* data = nullptr;
  int64_t bytes = 0;  // kAllReduce: bytes of floats
  int rank = -1, peer = -1;
  Tag tag = 0;
  TagRange tags{0, 0};  // kReceiveAny
  Message message;      // kReceiveAny

  // For the communication thread only.
  int64_t pieces_left = 0;

  uint64_t record = 0;  // of operations(); 0: none
  std::exception_ptr error;
  std::atomic<bool> done = false;
};

// A piece that arrived while something listened to a range of tags.
struct Stray {
  int from;
  Tag tag;
  MessageBytes bytes;
  std::shared_ptr<Operation> arrival;
  // Still pending if a run was abandoned while this piece was arriving.
  MPI_Request arriving = MPI_REQUEST_NULL;
};

struct TaskOnThread : TaskState {
  std::string name;
  std::function<void()> body;

  // For the communication thread only.
  std::unique_ptr<Fiber> fiber;
  const std::atomic<bool>* waits_for = nullptr;  // null: may go on
  bool is_polling = false;                       // waits only because it
                                                 // yielded

  bool is_service = false;
  TrafficCounters sent;  // counted when it is joined, except for services

  uint64_t record = 0;     // of operations()
  bool is_joined = false;  // read once only one thread is left
  std::exception_ptr error;
  std::atomic<bool> done = false;
};

}  // namespace syncopate::mpi
