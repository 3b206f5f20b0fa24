// Activation memory, planned once: a dry run of a step takes and gives back
// blocks, the planner packs them, and nothing is allocated afterwards.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <vector>

#include "device/device.h"
#include "tensor/tensor.h"

namespace syncopate {

// A tensor whose address the arena assigns; usable after Arena::commit().
struct Slot {
  DType dtype = DType::kF32;
  Shape shape;
  Layout layout = Layout::kRowMajor;
  int64_t offset_bytes = -1;
};

class Arena {
 public:
  // Planning: call in the order in which the step takes and gives back memory.
  // A block may reuse the place of one that was given back before.
  Slot take(DType dtype, Shape shape, Layout layout = Layout::kRowMajor);
  void give_back(const Slot& slot);

  int64_t peak_bytes() const { return peak_bytes_; }

  // Allocates peak_bytes() on the device; slots are then usable with at().
  void commit(Device& device);
  Tensor at(const Slot& slot) const;

 private:
  std::map<int64_t, int64_t> free_;   // offset -> bytes, below end_bytes_
  std::map<int64_t, int64_t> taken_;  // offset -> bytes
  int64_t end_bytes_ = 0, peak_bytes_ = 0;
  Buffer memory_;
};

}  // namespace syncopate
