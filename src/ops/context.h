// What every op needs besides its tensors: where to run, in which order, and
// scratch memory. Always passed, never global.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <typeindex>
#include <unordered_map>

#include "device/device.h"
#include "tensor/tensor.h"

namespace syncopate {

class Context {
 public:
  // `threads`: OpenMP threads of every op that runs through this context;
  // results may depend on it in the last bits, and on nothing else.
  Context(Device& device, Stream& stream, int threads);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Device& device() const { return device_; }
  Stream& stream() const { return stream_; }
  int threads() const { return threads_; }

  // Memory for the length of one op call; grows to the largest asked for.
  // `index` tells apart buffers that one op needs at the same time (0..3).
  void* scratch(int64_t bytes, int index = 0);

  // Per-context state of an op's implementation (created primitives, plans),
  // made on first use and kept.
  template <typename T>
  T& cache() {
    std::shared_ptr<void>& entry = cache_[std::type_index(typeid(T))];
    if (!entry) entry = std::make_shared<T>();
    return *static_cast<T*>(entry.get());
  }

 private:
  Device& device_;
  Stream& stream_;
  int threads_;
  Buffer scratch_[4];
  std::unordered_map<std::type_index, std::shared_ptr<void>> cache_;
};

}  // namespace syncopate
