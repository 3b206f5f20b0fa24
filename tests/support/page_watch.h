// Counts the pages of a range of host memory that are read or written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace syncopate::test {

// By page protection, so that nothing that touches the range can be missed. One
// watch at a time per range; system calls must not use it meanwhile.
class PageWatch {
 public:
  // Watches the whole pages of `range`, and counts from 0.
  explicit PageWatch(std::span<float> range);
  ~PageWatch();
  PageWatch(const PageWatch&) = delete;
  PageWatch& operator=(const PageWatch&) = delete;

  int64_t pages() const;    // watched
  int64_t touched() const;  // since the start

 private:
  size_t index_;
};

}  // namespace syncopate::test
