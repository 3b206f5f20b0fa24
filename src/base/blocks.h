// Memory for large blocks, such as tensors and messages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

namespace syncopate {

// Returns memory that std::free releases, or nullptr if there is none. From 8
// MiB on it is aligned to huge pages, and the system is asked for them: a block
// that is touched for the first time then faults once for 2 MiB instead of once
// for 4 KiB (tests/bench/README.md has what this is worth for messages).
void* allocate_block(size_t bytes, size_t alignment);

// For a std::vector of such a block. Elements without a value, as after
// resize(), are not set to zero.
template <typename T>
struct BlockAllocator {
  using value_type = T;

  BlockAllocator() = default;
  template <typename Other>
  BlockAllocator(const BlockAllocator<Other>&) {}

  T* allocate(size_t elems) {
    void* const memory = allocate_block(elems * sizeof(T), alignof(T));
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t) { std::free(memory); }

  void construct(T* at) { ::new (static_cast<void*>(at)) T; }
  template <typename... Values>
  void construct(T* at, Values&&... values) {
    ::new (static_cast<void*>(at)) T(std::forward<Values>(values)...);
  }

  bool operator==(const BlockAllocator&) const { return true; }
};

// The bytes of a message.
using MessageBytes = std::vector<std::byte, BlockAllocator<std::byte>>;

}  // namespace syncopate
