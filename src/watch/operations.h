// The last operations of this process, for the report of a hang: messages that
// it sent and received, and tasks that it ran. Written by worker threads, read
// at any moment. Lock-free.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace syncopate {

class OperationLog {
 public:
  enum class Kind : uint8_t { kSend, kReceive, kReceiveAny, kAllReduce, kTask };
  static constexpr size_t kKept = 256;

  // Returns a handle for end(). `peer` is a rank, or -1 for none.
  uint64_t begin(Kind kind, int peer, int tag, int64_t bytes);
  uint64_t begin_task(std::string_view name);  // keeps its first 23 letters
  void end(uint64_t operation);                // 0: was not recorded

  // Returns "receive of 4096 bytes from rank 2, bucket 3": the newest operation
  // in progress, tasks before messages; else the newest that has ended.
  std::string last() const;
  // Returns all operations that are kept, oldest first, one per line.
  std::vector<std::string> lines() const;

  // Sets how tags are printed ("bucket 3"). Call once, before the first
  // operation.
  void name_tags(std::string (*name_of_tag)(int)) {
    name_of_tag_ = name_of_tag;
  }

 private:
  struct Slot {
    std::atomic<uint64_t> number = 0;  // 1, 2, ...; 0 while being written
    std::atomic<Kind> kind = Kind::kSend;
    std::atomic<int> peer = -1, tag = 0;
    std::atomic<int64_t> bytes = 0;
    std::array<std::atomic<uint64_t>, 3> name = {};
    std::atomic<double> begin_s = 0, end_s = -1;  // by watch_clock()
  };
  struct Entry {  // a copy of a slot
    Kind kind = Kind::kSend;
    int peer = -1, tag = 0;
    int64_t bytes = 0;
    std::string name;
    double begin_s = 0, end_s = -1;
  };

  uint64_t record(Kind kind,
                  int peer,
                  int tag,
                  int64_t bytes,
                  std::string_view name);
  std::vector<Entry> entries() const;  // oldest first
  std::string text_of(const Entry& entry) const;

  std::atomic<uint64_t> count_ = 0;
  std::array<Slot, kKept> slots_;
  std::string (*name_of_tag_)(int) = nullptr;
};

OperationLog& operations();  // of this process

}  // namespace syncopate
