// Collectives and point-to-point between GPUs, one rank a GPU: what travels
// stays in device memory. Control and services stay on MPI.
//
// Ordering. One object a process, and all its work is on one stream: since
// communicators that are used in unlike order on two ranks wait for each other
// for ever, members of a group give their operations in the same order, over
// all groups that they share. Calls return when the work is on the stream:
//   data_ready.wait_on(collectives.stream());
//   collectives.all_reduce_sum(gradients, collectives.world());
//   summed.record(collectives.stream());
//   ...
//   collectives.wait(summed);            // or summed.wait_on(other_stream)
// The memory must stay until then. Nothing may be recorded into a Graph.
//
// Errors. When a peer is gone, fails or does not answer within the limit, all
// communicators are aborted, so that the stream comes free, and the call throws
// Error(kPeerLost); every later call throws the same line again. What only a
// bug of ours can cause (ranks that disagree) is Error(kInternal). Calls come
// from one thread at a time; abort() may come from any at any moment.
//
// Bits. All members end with the same sums, the same again for the same
// library, topology and settings (NCCL_ALGO, NCCL_PROTO); the order of
// summation is the library's and not that of the ring of collectives.h.
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
  int communicator = -1;  // below 0: this rank is in none
  int size = 0;
  int position = -1;
};

// One message of an exchange. `peer` is a position in the group, and may be the
// own one. Both ends name the same number of bytes; 0 bytes are no message.
struct Transfer {
  enum class Way : uint8_t { kSend, kReceive };
  Way way = Way::kSend;
  int peer = 0;
  void* data = nullptr;  // a send only reads it
  int64_t bytes = 0;
};

class DeviceCollectives {
 public:
  // Waits, with the limit, for what it has given; after an error, or while an
  // exception is on its way, it aborts instead.
  virtual ~DeviceCollectives() = default;

  virtual std::string library() const = 0;  // "NCCL 2.28.9"
  virtual Stream& stream() = 0;

  virtual DeviceGroup world() const = 0;
  // Collective over the world: ranks of one color become a group, ordered by
  // key, then rank. A color below 0: in no group.
  virtual DeviceGroup split(int color, int key) = 0;

  // In-place sum of `elems` values, in memory of the type that `wire` names:
  // kBf16 sums are rounded to bf16 whenever they travel.
  virtual void all_reduce_sum(void* values,
                              int64_t elems,
                              Wire wire,
                              const DeviceGroup& group) = 0;
  void all_reduce_sum(std::span<float> values, const DeviceGroup& group) {
    all_reduce_sum(values.data(), static_cast<int64_t>(values.size()),
                   Wire::kF32, group);
  }

  // `values` holds group.size parts of `part_elems`; the sum of part p goes to
  // position p. `part` may be the own place in `values`, and must not overlap
  // it otherwise.
  virtual void reduce_scatter_sum(void* part,
                                  const void* values,
                                  int64_t part_elems,
                                  Wire wire,
                                  const DeviceGroup& group) = 0;

  // Part p of `values` becomes what position p has in `part`; aliasing as
  // above.
  virtual void all_gather(void* values,
                          const void* part,
                          int64_t part_bytes,
                          const DeviceGroup& group) = 0;

  // The bytes of the position `root` to all others of the group.
  virtual void broadcast(void* data,
                         int64_t bytes,
                         int root,
                         const DeviceGroup& group) = 0;

  // All at once, in any order between pairs; what one position sends another
  // is received in the order listed. Only the two ends of a transfer need to
  // call. Memory of transfers must not overlap, but for sends with each other.
  virtual void exchange(std::span<const Transfer> transfers,
                        const DeviceGroup& group) = 0;

  // Throws if the library has noticed an error meanwhile. Never waits.
  virtual void check() = 0;

  // The calling thread waits for the work behind the event and looks for
  // errors; no longer than the limit.
  virtual void wait(Event& event) = 0;

  // Ends everything in flight, whose results are then undefined. Once or more.
  virtual void abort() noexcept = 0;
};

// Empty where NCCL can be used, else why not, as half a sentence.
std::string nccl_missing();

struct NcclOptions {
  // Of every wait for peers. Longer than what one rank may be busy with alone
  // between two steps: a checkpoint, an evaluation.
  double limit_s = 300;
};

// Made on rank 0 and given to all by the caller.
std::vector<std::byte> nccl_unique_id();

// Collective over `size` ranks, each with a GPU of its own; all reach a first
// sum before it returns. The device must outlive the object.
std::unique_ptr<DeviceCollectives> make_nccl(Device& device,
                                             int rank,
                                             int size,
                                             std::span<const std::byte> id,
                                             const NcclOptions& options = {});

}  // namespace syncopate
