// What the processes of one communicator of the NCCL shim share: a channel for
// each ordered pair of ranks, and who is there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace syncopate::emulator {

inline constexpr int kMaxShimRanks = 16;
inline constexpr uint64_t kChunkBytes = uint64_t{256} << 10;

// What both ends of a message must agree on.
struct MessageLabel {
  uint32_t operation = 0;
  uint32_t type = 0;
  uint64_t serial = 0;  // of the collective; messages of a pair have 0
  uint64_t bytes = 0;
  bool operator==(const MessageLabel&) const = default;
};

// One chunk at a time from one rank to another. The sender fills it when
// published == consumed, the receiver empties it when published is ahead.
struct Channel {
  std::atomic<uint64_t> published, consumed;
  MessageLabel label;
  uint64_t chunk_bytes;
  alignas(64) std::byte data[kChunkBytes];

  bool is_free() const {
    return published.load(std::memory_order_acquire) ==
           consumed.load(std::memory_order_acquire);
  }
};

class Segment {
 public:
  // Makes the shared memory of that name or joins it. Throws
  // std::system_error.
  Segment(const std::string& name, int rank, int size);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  Channel& channel(int from, int to);
  bool is_complete();  // all ranks have joined; the name is gone then
  // A process has ended without leave(), dead or alive: its lock is free.
  bool is_gone(int rank) const;
  void leave();
  void finalize();
  bool is_finalized() const;  // by all
  // Members have been found to disagree about this collective: tells all.
  void spoil(uint64_t serial);
  uint64_t spoiled() const;  // which one, or 0

 private:
  struct Header;
  Header* header_ = nullptr;
  std::string name_;
  int rank_, size_;
  int file_ = -1;
  size_t bytes_ = 0;
  bool is_complete_ = false;
};

}  // namespace syncopate::emulator
