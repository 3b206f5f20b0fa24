// Operations of the NCCL shim: what they consist of, and the queue in which
// they wait for their peers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/nccl_shim_segment.h"

struct ncclComm {
  std::string name;
  int rank = 0, size = 0;
  std::unique_ptr<syncopate::emulator::Segment> segment;
  uint64_t num_collectives = 0, num_splits = 0;
  int num_pending = 0;      // operations in the queue
  int num_extra_polls = 0;  // that still say ncclInProgress, for no reason
  bool is_finalizing = false;
  double looked_s = 0;  // when it last looked for peers that are gone
  ncclResult_t error = ncclSuccess;
};

namespace syncopate::emulator {

enum class Kind : uint32_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kMessage,
  kSplit,
};

struct Part {
  enum class Way : uint8_t { kOut, kIn };
  Way way;
  int peer;
  std::byte* data;
  MessageLabel label;
  uint64_t bytes_done = 0;
  bool is_done() const { return bytes_done == label.bytes; }
};

struct Operation {
  ncclComm* comm = nullptr;
  cudaStream_t stream = nullptr;  // null: the host's own
  std::vector<Part> parts;
  std::vector<std::vector<std::byte>> staging;  // by rank
  std::function<void()> finish;
};

uint64_t bytes_of(ncclDataType_t type);
std::byte* bytes_at(const void* memory, uint64_t offset = 0);

// A collective on its way: every part has the same label.
struct Collective {
  Operation operation;
  MessageLabel label;

  Collective(ncclComm* comm,
             Kind kind,
             ncclDataType_t type,
             uint64_t part_bytes,
             cudaStream_t stream);
  void send(int peer, const void* data);
  void receive(int peer, void* data);
  void* stage(int peer);  // host memory for a part

  // What is staged and the own part, summed in the order of the ranks.
  std::function<void()> sum_to(void* to,
                               const void* own,
                               ncclDataType_t type,
                               size_t count) const;
};

// All of the following with this mutex held.
extern std::mutex shim_mutex;
extern std::string last_error;

ncclResult_t refuse(ncclResult_t result, std::string text);

// Success if the communicator takes another call.
ncclResult_t ready(ncclComm* comm);
ncclResult_t give(Operation operation);  // ncclInProgress, or why not
void take_back(ncclComm* comm);          // all that waits

// Moves what can be moved, of all communicators; the state of this one.
ncclResult_t poll(ncclComm& comm);

}  // namespace syncopate::emulator
