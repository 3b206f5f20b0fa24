// NCCL between processes of one host, over shared memory and emulated device
// memory: the calls of comm/nccl/nccl_functions.h with the semantics that a
// caller of the library can see.
//
// Communicators are non-blocking only. A call leaves an operation behind and
// returns ncclInProgress; every ncclCommGetAsyncError moves data where it can.
// Data moves beside the queue of an emulated stream, once all that was given to
// the stream before has run; the end of an operation, where sums are formed, is
// work of the stream. An operation counts as given to its stream when its data
// has moved, and one stream's operations go one after the other, over all
// communicators: used in unlike order, two of them wait for each other here
// too. A peer whose process has ended is ncclRemoteError; one that has
// aborted is not noticed, as between GPUs of one host. Sums are formed in fp32
// in the order of the ranks. Members that disagree about an operation, which
// the library may answer with anything, get ncclInvalidUsage.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>

#include "base/clock.h"
#include "comm/nccl/nccl_functions.h"
#include "device/cuda/cuda_stream.h"
#include "emulator/nccl_shim_operations.h"

namespace syncopate {
namespace emulator {
namespace {

int num_ids = 0;
thread_local int group_depth = 0;
thread_local std::vector<Operation> grouped;

ncclResult_t check_sum(ncclComm* comm, ncclDataType_t type, ncclRedOp_t op) {
  if (group_depth > 0) {
    return refuse(ncclInvalidUsage, "the shim groups messages only");
  }
  if (op != ncclSum || (type != ncclFloat32 && type != ncclBfloat16)) {
    return refuse(ncclInvalidArgument, "the shim sums float32 and bfloat16");
  }
  return ready(comm);
}

ncclResult_t all_reduce(const void* from,
                        void* to,
                        size_t count,
                        ncclDataType_t type,
                        ncclRedOp_t op,
                        ncclComm_t comm,
                        cudaStream_t stream) {
  const std::lock_guard lock(shim_mutex);
  const ncclResult_t result = check_sum(comm, type, op);
  if (result != ncclSuccess || count == 0) return result;
  Collective sum(comm, Kind::kAllReduce, type, count * bytes_of(type), stream);
  for (int peer = 0; peer < comm->size; ++peer) {
    if (peer == comm->rank) continue;
    sum.send(peer, from);
    sum.receive(peer, sum.stage(peer));
  }
  sum.operation.finish = sum.sum_to(to, from, type, count);
  return give(std::move(sum.operation));
}

ncclResult_t reduce_scatter(const void* from,
                            void* to,
                            size_t count,
                            ncclDataType_t type,
                            ncclRedOp_t op,
                            ncclComm_t comm,
                            cudaStream_t stream) {
  const std::lock_guard lock(shim_mutex);
  const ncclResult_t result = check_sum(comm, type, op);
  if (result != ncclSuccess || count == 0) return result;
  Collective sum(comm, Kind::kReduceScatter, type, count * bytes_of(type),
                 stream);
  const uint64_t bytes = sum.label.bytes;
  for (int peer = 0; peer < comm->size; ++peer) {
    if (peer == comm->rank) continue;
    sum.send(peer, bytes_at(from, peer * bytes));
    sum.receive(peer, sum.stage(peer));
  }
  const void* own = bytes_at(from, comm->rank * bytes);
  sum.operation.finish = sum.sum_to(to, own, type, count);
  return give(std::move(sum.operation));
}

ncclResult_t all_gather(const void* from,
                        void* to,
                        size_t count,
                        ncclDataType_t type,
                        ncclComm_t comm,
                        cudaStream_t stream) {
  const std::lock_guard lock(shim_mutex);
  const ncclResult_t result = ready(comm);
  if (result != ncclSuccess || count == 0) return result;
  Collective gather(comm, Kind::kAllGather, type, count * bytes_of(type),
                    stream);
  const uint64_t bytes = gather.label.bytes;
  for (int peer = 0; peer < comm->size; ++peer) {
    if (peer == comm->rank) continue;
    gather.send(peer, from);
    gather.receive(peer, bytes_at(to, peer * bytes));
  }
  std::byte* own = bytes_at(to, comm->rank * bytes);
  gather.operation.finish = [=] { std::memmove(own, from, bytes); };
  return give(std::move(gather.operation));
}

ncclResult_t broadcast(const void* from,
                       void* to,
                       size_t count,
                       ncclDataType_t type,
                       int root,
                       ncclComm_t comm,
                       cudaStream_t stream) {
  const std::lock_guard lock(shim_mutex);
  const ncclResult_t result = ready(comm);
  if (result != ncclSuccess || count == 0) return result;
  if (root < 0 || root >= comm->size) {
    return refuse(ncclInvalidArgument, "no such root");
  }
  Collective message(comm, Kind::kBroadcast, type, count * bytes_of(type),
                     stream);
  if (comm->rank == root) {
    for (int peer = 0; peer < comm->size; ++peer) {
      if (peer != root) message.send(peer, from);
    }
    const uint64_t bytes = message.label.bytes;
    message.operation.finish = [=] { std::memmove(to, from, bytes); };
  } else {
    message.receive(root, to);
  }
  return give(std::move(message.operation));
}

ncclResult_t give_grouped() {
  for (const Operation& operation : grouped) {
    const ncclResult_t result = ready(operation.comm);
    if (result != ncclSuccess) return result;
  }
  ncclResult_t result = ncclSuccess;
  for (Operation& operation : grouped) result = give(std::move(operation));
  return result;
}

ncclResult_t add_message(Part::Way way,
                         const void* data,
                         size_t count,
                         ncclDataType_t type,
                         int peer,
                         ncclComm_t comm,
                         cudaStream_t stream) {
  const std::lock_guard lock(shim_mutex);
  if (comm == nullptr || peer < 0 || peer >= comm->size) {
    return refuse(ncclInvalidArgument, "no such peer");
  }
  if (count == 0) return ncclSuccess;
  auto it =
      std::find_if(grouped.begin(), grouped.end(), [&](const Operation& each) {
        return each.comm == comm && each.stream == stream;
      });
  if (it == grouped.end()) {
    Operation operation;
    operation.comm = comm;
    operation.stream = stream;
    operation.finish = [] {};
    it = grouped.insert(it, std::move(operation));
  }
  const MessageLabel label{static_cast<uint32_t>(Kind::kMessage),
                           static_cast<uint32_t>(type), 0,
                           count * bytes_of(type)};
  it->parts.push_back({way, peer, bytes_at(data), label});
  if (group_depth > 0) return ncclSuccess;
  const ncclResult_t result = give_grouped();
  grouped.clear();
  return result;
}

ncclResult_t send(const void* data,
                  size_t count,
                  ncclDataType_t type,
                  int peer,
                  ncclComm_t comm,
                  cudaStream_t stream) {
  return add_message(Part::Way::kOut, data, count, type, peer, comm, stream);
}

ncclResult_t recv(void* data,
                  size_t count,
                  ncclDataType_t type,
                  int peer,
                  ncclComm_t comm,
                  cudaStream_t stream) {
  return add_message(Part::Way::kIn, data, count, type, peer, comm, stream);
}

ncclResult_t group_start() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t group_end() {
  const std::lock_guard lock(shim_mutex);
  if (group_depth == 0) return refuse(ncclInvalidUsage, "no group");
  if (--group_depth > 0) return ncclSuccess;
  const ncclResult_t result = give_grouped();
  grouped.clear();
  return result;
}

ncclResult_t get_version(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t get_unique_id(ncclUniqueId* id) {
  const std::lock_guard lock(shim_mutex);
  *id = {};
  const std::string name = fmt::format("/syncopate-nccl-{}-{}-{:.6f}", getpid(),
                                       ++num_ids, monotonic_s());
  std::memcpy(id->internal, name.data(), name.size());
  return ncclSuccess;
}

const char* get_error_string(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclSystemError:
      return "a call of the system failed";
    case ncclInvalidArgument:
      return "a wrong argument";
    case ncclInvalidUsage:
      return "wrong usage";
    case ncclRemoteError:
      return "a remote process has ended";
    case ncclInProgress:
      return "in progress";
    default:
      return "an error";
  }
}

const char* get_last_error(ncclComm_t) {
  return last_error.c_str();
}

ncclResult_t join(ncclComm_t* comm,
                  const std::string& name,
                  int rank,
                  int size) {
  auto joined = std::make_unique<ncclComm>();
  joined->name = name;
  joined->rank = rank;
  joined->size = size;
  joined->num_extra_polls = 3;
  try {
    joined->segment = std::make_unique<Segment>(name, rank, size);
  } catch (const std::system_error& error) {
    return refuse(ncclSystemError, error.what());
  }
  *comm = joined.release();
  return ncclInProgress;
}

bool is_non_blocking(const ncclConfig_t* config) {
  return config != nullptr && config->blocking == 0;
}

ncclResult_t comm_init_rank_config(ncclComm_t* comm,
                                   int size,
                                   ncclUniqueId id,
                                   int rank,
                                   ncclConfig_t* config) {
  const std::lock_guard lock(shim_mutex);
  const std::string name(id.internal, strnlen(id.internal, sizeof id.internal));
  if (!is_non_blocking(config) || size > kMaxShimRanks || rank < 0 ||
      rank >= size || !name.starts_with("/syncopate-nccl-")) {
    return refuse(ncclInvalidArgument,
                  "the shim has non-blocking communicators of 16 at most");
  }
  return join(comm, name, rank, size);
}

// As a real NCCL does: a thread of the library fills in the handle when the
// parent has been ready for a while.
void fill_in_late(ncclComm_t* child, ncclComm_t joined) {
  std::thread([=] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic_ref(*child).store(joined);
  }).detach();
}

// Everyone's color and key to everyone; ranks are ordered by key, then rank.
ncclResult_t comm_split(ncclComm_t comm,
                        int color,
                        int key,
                        ncclComm_t* child,
                        ncclConfig_t* config) {
  const std::lock_guard lock(shim_mutex);
  const ncclResult_t result = ready(comm);
  if (result != ncclSuccess) return result;
  if (!is_non_blocking(config)) {
    return refuse(ncclInvalidArgument, "the shim is non-blocking only");
  }
  *child = nullptr;  // until the split is done
  struct Choice {
    int32_t color, key;
  };
  Collective choice(comm, Kind::kSplit, ncclUint8, sizeof(Choice), nullptr);
  auto* own = static_cast<Choice*>(choice.stage(comm->rank));
  *own = {color, key};
  std::vector<const Choice*> choices(comm->size, own);
  for (int peer = 0; peer < comm->size; ++peer) {
    if (peer == comm->rank) continue;
    choice.send(peer, own);
    choices[peer] = static_cast<Choice*>(choice.stage(peer));
    choice.receive(peer, choice.stage(peer));
  }
  const uint64_t serial = ++comm->num_splits;
  choice.operation.finish = [=] {
    if (color == NCCL_SPLIT_NOCOLOR) return;
    int size = 0, position = 0;
    for (int rank = 0; rank < comm->size; ++rank) {
      const Choice& other = *choices[rank];
      if (other.color != color) continue;
      ++size;
      position += other.key < key || (other.key == key && rank < comm->rank);
    }
    const auto name = fmt::format("{}.{}.{}", comm->name, serial, color);
    ncclComm_t joined = nullptr;
    const ncclResult_t result = join(&joined, name, position, size);
    if (result == ncclInProgress)
      fill_in_late(child, joined);
    else
      comm->error = result;
  };
  const ncclResult_t given = give(std::move(choice.operation));
  // Every second one claims to be done at once.
  return given == ncclInProgress && serial % 2 == 0 ? ncclSuccess : given;
}

ncclResult_t comm_count(const ncclComm_t comm, int* count) {
  *count = comm->size;
  return ncclSuccess;
}

ncclResult_t comm_user_rank(const ncclComm_t comm, int* rank) {
  *rank = comm->rank;
  return ncclSuccess;
}

ncclResult_t comm_get_async_error(ncclComm_t comm, ncclResult_t* state) {
  const std::lock_guard lock(shim_mutex);
  *state = poll(*comm);
  return ncclSuccess;
}

ncclResult_t comm_finalize(ncclComm_t comm) {
  const std::lock_guard lock(shim_mutex);
  const ncclResult_t result = ready(comm);
  if (result != ncclSuccess) return result;
  comm->is_finalizing = true;
  comm->segment->finalize();
  return ncclInProgress;
}

// To end and to abort are the same to the peers: neither is noticed.
ncclResult_t comm_destroy(ncclComm_t comm) {
  const std::lock_guard lock(shim_mutex);
  take_back(comm);
  comm->segment->leave();
  delete comm;
  return ncclSuccess;
}

}  // namespace
}  // namespace emulator

const NcclFunctions& nccl_functions() {
  namespace shim = emulator;
  static const NcclFunctions functions = {
      .missing = "",
      .get_version = shim::get_version,
      .get_unique_id = shim::get_unique_id,
      .get_error_string = shim::get_error_string,
      .get_last_error = shim::get_last_error,
      .comm_init_rank_config = shim::comm_init_rank_config,
      .comm_split = shim::comm_split,
      .comm_count = shim::comm_count,
      .comm_user_rank = shim::comm_user_rank,
      .comm_get_async_error = shim::comm_get_async_error,
      .comm_finalize = shim::comm_finalize,
      .comm_destroy = shim::comm_destroy,
      .comm_abort = shim::comm_destroy,
      .all_reduce = shim::all_reduce,
      .reduce_scatter = shim::reduce_scatter,
      .all_gather = shim::all_gather,
      .broadcast = shim::broadcast,
      .send = shim::send,
      .recv = shim::recv,
      .group_start = shim::group_start,
      .group_end = shim::group_end,
  };
  return functions;
}

// The handle of an emulated stream is its address.
cudaStream_t cuda_stream(Stream& stream) {
  return reinterpret_cast<cudaStream_t>(&stream);
}

}  // namespace syncopate
