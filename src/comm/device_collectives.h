// Collectives and point-to-point transfers between GPUs, one rank per GPU. The
// data stays in device memory; control messages and services stay on MPI.
//
// Ordering. There is one object per process, and all its work is on one stream.
// Communicators used in different orders on two ranks would deadlock, so
// members of a group issue their operations in the same order across all the
// groups they share. Calls return once the work is on the stream:
//   data_ready.wait_on(collectives.stream());
//   collectives.all_reduce_sum(gradients, collectives.world());
//   summed.record(collectives.stream());
//   ...
//   collectives.wait(summed);            // or summed.wait_on(other_stream)
// The memory must remain valid until then. Calls cannot be captured in a Graph.
//
// Errors. If a peer is gone, fails, or does not answer within the limit, all
// communicators are aborted, which frees the stream, and the call throws
// Error(kPeerLost); every later call throws the same line again. What only a
// bug in this program can cause (ranks that disagree) is Error(kInternal).
// Calls come from one thread at a time; abort() may come from any thread at any
// time.
//
// Bits. All members end with identical sums, which are reproducible for the
// same library, topology and settings (NCCL_ALGO, NCCL_PROTO). The order of
// summation is the library's, not that of the ring in collectives.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/collectives.h"
#include "device/device.h"

namespace syncopate {

// A handle to the ranks that share a communicator, in order of position.
struct DeviceGroup {
  int communicator = -1;  // negative: this rank is in no group
  int size = 0;
  int position = -1;
};

// One message of an exchange. `peer` is a position in the group, possibly this
// rank's own. Both ends state the same number of bytes; 0 bytes send no
// message.
struct Transfer {
  enum class Way : uint8_t { kSend, kReceive };
  Way way = Way::kSend;
  int peer = 0;
  void* data = nullptr;  // only read by a send
  int64_t bytes = 0;
};

class DeviceCollectives {
 public:
  // Waits, up to the limit, for outstanding work; aborts instead after an error
  // or during stack unwinding.
  virtual ~DeviceCollectives() = default;

  virtual std::string library() const = 0;  // "NCCL 2.28.9"
  virtual Stream& stream() = 0;

  virtual DeviceGroup world() const = 0;
  // Collective over the world: ranks with the same color form a group, ordered
  // by key, then rank. A negative color joins no group.
  virtual DeviceGroup split(int color, int key) = 0;

  // Sums `elems` values in place, in memory of the type that `wire` names:
  // partial sums in kBf16 are rounded to bf16 whenever they are sent.
  virtual void all_reduce_sum(void* values,
                              int64_t elems,
                              Wire wire,
                              const DeviceGroup& group) = 0;
  void all_reduce_sum(std::span<float> values, const DeviceGroup& group) {
    all_reduce_sum(values.data(), static_cast<int64_t>(values.size()),
                   Wire::kF32, group);
  }

  // `values` holds group.size parts of `part_elems`; position p receives the
  // sum of part p. `part` may be this rank's own place in `values` but must not
  // otherwise overlap it.
  virtual void reduce_scatter_sum(void* part,
                                  const void* values,
                                  int64_t part_elems,
                                  Wire wire,
                                  const DeviceGroup& group) = 0;

  // Part p of `values` receives `part` of position p. Aliasing as above.
  virtual void all_gather(void* values,
                          const void* part,
                          int64_t part_bytes,
                          const DeviceGroup& group) = 0;

  // Sends the bytes of position `root` to the rest of the group.
  virtual void broadcast(void* data,
                         int64_t bytes,
                         int root,
                         const DeviceGroup& group) = 0;

  // Runs all transfers concurrently, in any order between pairs; messages
  // between two positions are received in the order listed. Only the two ends
  // of a transfer need to call. Memory of transfers must not overlap, except
  // that sends may share memory.
  virtual void exchange(std::span<const Transfer> transfers,
                        const DeviceGroup& group) = 0;

  // Throws if the library has noticed an error in the meantime. Never blocks.
  virtual void check() = 0;

  // Blocks the calling thread until the event is complete, checking for errors,
  // for at most the limit.
  virtual void wait(Event& event) = 0;

  // Ends everything in flight, with undefined results. May be called
  // repeatedly.
  virtual void abort() noexcept = 0;
};

// Returns an empty string if NCCL can be used, else the reason as a clause.
std::string nccl_missing();

// Returns its name and version, "NCCL 2.28.9"; it must not be missing.
std::string nccl_name();

struct NcclOptions {
  // Limits every wait for peers. Must exceed the time one rank may be busy
  // alone between two steps, such as for a checkpoint or an evaluation.
  double limit_s = 300;
};

// Created on rank 0; the caller distributes it to all ranks.
std::vector<std::byte> nccl_unique_id();

// Collective over `size` ranks, each with its own GPU. All ranks complete a
// first sum before it returns. The device must outlive the object.
std::unique_ptr<DeviceCollectives> make_nccl(Device& device,
                                             int rank,
                                             int size,
                                             std::span<const std::byte> id,
                                             const NcclOptions& options = {});

}  // namespace syncopate
