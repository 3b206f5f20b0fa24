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

// Whether the same call must give the same bits each time. Bodies on the CPU
// and hand-written kernels always do; libraries on a GPU have algorithms that
// are faster and do not.
enum class Determinism : uint8_t { kRequired, kOff };

class Context {
 public:
  // `threads`: OpenMP threads of every op that runs through this context;
  // results may depend on it in the last bits, and on nothing else.
  Context(Device& device,
          Stream& stream,
          int threads,
          Determinism determinism = Determinism::kRequired);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Device& device() const { return device_; }
  Stream& stream() const { return stream_; }
  int threads() const { return threads_; }
  Determinism determinism() const { return determinism_; }

  // Device memory for the length of one op call; grows to the largest asked
  // for. `index` tells apart buffers that one op needs at the same time (0..3).
  void* scratch(int64_t bytes, int index = 0);

  // Grows when a scratch buffer moves: recorded work that used the old one
  // must not run again.
  uint64_t scratch_generation() const { return scratch_generation_; }

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
  Determinism determinism_;
  Buffer scratch_[4];
  uint64_t scratch_generation_ = 0;
  std::unordered_map<std::type_index, std::shared_ptr<void>> cache_;
};

}  // namespace syncopate
