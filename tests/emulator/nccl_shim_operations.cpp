// SPDX-License-Identifier: Apache-2.0
#include "emulator/nccl_shim_operations.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <set>

#include "base/clock.h"
#include "comm/ring.h"
#include "device/device.h"
#include "emulator/emulator.h"

namespace syncopate::emulator {

std::mutex shim_mutex;
std::string last_error;

namespace {

constexpr const char* kDisagreement =
    "the ranks do not agree about an operation";

std::list<Operation> queue;
int num_launched = 0;

ncclResult_t refuse_for_good(ncclComm& comm,
                             ncclResult_t result,
                             std::string text) {
  comm.error = result;
  comm.num_pending = 0;
  take_back(&comm);
  return refuse(result, std::move(text));
}

// One chunk, where the channel lets it. False where the ends disagree.
bool move_chunk(ncclComm& comm, Part& part, bool& has_moved) {
  const bool is_out = part.way == Part::Way::kOut;
  Channel& channel = is_out ? comm.segment->channel(comm.rank, part.peer)
                            : comm.segment->channel(part.peer, comm.rank);
  if (channel.is_free() != is_out) return true;
  has_moved = true;
  const Access access;
  if (is_out) {
    const uint64_t bytes =
        std::min(kChunkBytes, part.label.bytes - part.bytes_done);
    channel.label = part.label;
    channel.chunk_bytes = bytes;
    std::memcpy(channel.data, part.data + part.bytes_done, bytes);
    part.bytes_done += bytes;
    channel.published.fetch_add(1, std::memory_order_release);
    return true;
  }
  if (channel.label != part.label) return false;
  std::memcpy(part.data + part.bytes_done, channel.data, channel.chunk_bytes);
  part.bytes_done += channel.chunk_bytes;
  channel.consumed.fetch_add(1, std::memory_order_release);
  return true;
}

enum class Outcome : uint8_t { kWaits, kMoved, kDone, kDisagrees };

// What one rank sends another goes in order, so a part waits for those before
// it that go the same way.
Outcome advance(Operation& operation) {
  std::set<std::pair<Part::Way, int>> busy;
  bool has_moved = false;
  for (Part& part : operation.parts) {
    if (part.is_done() || busy.contains({part.way, part.peer})) continue;
    if (!move_chunk(*operation.comm, part, has_moved)) {
      return Outcome::kDisagrees;
    }
    if (!part.is_done()) busy.insert({part.way, part.peer});
  }
  if (has_moved) return Outcome::kMoved;
  const bool is_done =
      std::all_of(operation.parts.begin(), operation.parts.end(),
                  [](const Part& part) { return part.is_done(); });
  return is_done ? Outcome::kDone : Outcome::kWaits;
}

void complete(Operation operation) {
  --operation.comm->num_pending;
  if (operation.stream == nullptr) {
    operation.finish();
    return;
  }
  auto& stream = *reinterpret_cast<Stream*>(operation.stream);
  // The stream may run it late: it keeps what was staged.
  const auto kept = std::make_shared<Operation>(std::move(operation));
  run_on(
      stream, [kept] { kept->finish(); }, "NCCL");
}

// Whether anything has happened.
bool advance_all() {
  bool has_moved = false;
  std::set<cudaStream_t> taken;
  for (auto it = queue.begin(); it != queue.end();) {
    const auto current = it++;
    const bool is_first =
        current->stream == nullptr || taken.insert(current->stream).second;
    if (!is_first) continue;
    const Outcome outcome = advance(*current);
    has_moved |= outcome != Outcome::kWaits;
    if (outcome == Outcome::kDone) {
      Operation done = std::move(*current);
      queue.erase(current);
      complete(std::move(done));
    } else if (outcome == Outcome::kDisagrees) {
      ncclComm& comm = *current->comm;
      const uint64_t serial = current->parts.front().label.serial;
      if (serial > 0) comm.segment->spoil(serial);
      refuse_for_good(comm, ncclInvalidUsage, kDisagreement);
      return true;  // the iterators are no longer good
    }
  }
  return has_moved;
}

void look_for_the_gone(ncclComm& comm) {
  constexpr double kIntervalS = 2e-3;
  const double now_s = monotonic_s();
  if (now_s - comm.looked_s < kIntervalS) return;
  comm.looked_s = now_s;
  for (int rank = 0; rank < comm.size; ++rank) {
    if (!comm.segment->is_gone(rank)) continue;
    refuse_for_good(comm, ncclRemoteError,
                    fmt::format("the process of rank {} has ended", rank));
    return;
  }
}

bool is_busy(ncclComm& comm) {
  return !comm.segment->is_complete() || comm.num_pending > 0 ||
         (comm.is_finalizing && !comm.segment->is_finalized());
}

float load(const float* values, size_t i) {
  return values[i];
}
float load(const uint16_t* values, size_t i) {
  return from_bf16(values[i]);
}
void store(float* values, size_t i, float value) {
  values[i] = value;
}
void store(uint16_t* values, size_t i, float value) {
  values[i] = bf16_of(value);
}

template <typename T>
void sum_in_order(void* to,
                  const std::vector<const void*>& parts,
                  size_t count) {
  for (size_t i = 0; i < count; ++i) {
    float sum = load(static_cast<const T*>(parts[0]), i);
    for (size_t rank = 1; rank < parts.size(); ++rank) {
      sum += load(static_cast<const T*>(parts[rank]), i);
    }
    store(static_cast<T*>(to), i, sum);
  }
}

}  // namespace

ncclResult_t refuse(ncclResult_t result, std::string text) {
  last_error = std::move(text);
  return result;
}

void take_back(ncclComm* comm) {
  queue.remove_if([&](const Operation& each) { return each.comm == comm; });
}

ncclResult_t ready(ncclComm* comm) {
  if (comm == nullptr) return refuse(ncclInvalidArgument, "no communicator");
  if (comm->error != ncclSuccess) return comm->error;
  if (is_busy(*comm) || comm->num_extra_polls > 0 || comm->is_finalizing) {
    return refuse(ncclInvalidArgument,
                  "a call before the one before it was done, or after the end");
  }
  return ncclSuccess;
}

ncclResult_t give(Operation operation) {
  ncclComm& comm = *operation.comm;
  if (operation.stream != nullptr) {
    auto& stream = *reinterpret_cast<Stream*>(operation.stream);
    if (is_capturing(stream)) {
      return refuse(ncclInvalidUsage, "the shim cannot be recorded");
    }
    stream.synchronize();  // data moves beside the stream's queue
  }
  ++comm.num_pending;
  comm.num_extra_polls = ++num_launched % 2;
  queue.push_back(std::move(operation));
  return ncclInProgress;
}

ncclResult_t poll(ncclComm& comm) {
  const bool has_moved = advance_all();
  if (!has_moved && comm.error == ncclSuccess) look_for_the_gone(comm);
  const uint64_t spoiled = comm.segment->spoiled();
  if (comm.error == ncclSuccess && comm.num_pending > 0 && spoiled > 0 &&
      comm.num_collectives >= spoiled) {
    refuse_for_good(comm, ncclInvalidUsage, kDisagreement);
  }
  if (comm.error != ncclSuccess) return comm.error;
  if (is_busy(comm)) return ncclInProgress;
  if (comm.num_extra_polls == 0) return ncclSuccess;
  --comm.num_extra_polls;
  return ncclInProgress;
}

uint64_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat32:
      return 4;
    case ncclBfloat16:
      return 2;
    case ncclUint8:
      return 1;
    default:
      return 0;
  }
}

std::byte* bytes_at(const void* memory, uint64_t offset) {
  return const_cast<std::byte*>(static_cast<const std::byte*>(memory)) + offset;
}

Collective::Collective(ncclComm* comm,
                       Kind kind,
                       ncclDataType_t type,
                       uint64_t part_bytes,
                       cudaStream_t stream)
    : label{static_cast<uint32_t>(kind), static_cast<uint32_t>(type),
            ++comm->num_collectives, part_bytes} {
  operation.comm = comm;
  operation.stream = stream;
  operation.finish = [] {};
  operation.staging.resize(comm->size);
}

void Collective::send(int peer, const void* data) {
  operation.parts.push_back({Part::Way::kOut, peer, bytes_at(data), label});
}

void Collective::receive(int peer, void* data) {
  operation.parts.push_back({Part::Way::kIn, peer, bytes_at(data), label});
}

void* Collective::stage(int peer) {
  operation.staging[peer].resize(label.bytes);
  return operation.staging[peer].data();
}

// What is staged stays where it is when the operation moves.
std::function<void()> Collective::sum_to(void* to,
                                         const void* own,
                                         ncclDataType_t type,
                                         size_t count) const {
  std::vector<const void*> parts;
  for (const auto& staged : operation.staging) parts.push_back(staged.data());
  parts[operation.comm->rank] = own;
  return [=] {
    if (type == ncclFloat32) {
      sum_in_order<float>(to, parts, count);
    } else {
      sum_in_order<uint16_t>(to, parts, count);
    }
  };
}

}  // namespace syncopate::emulator
