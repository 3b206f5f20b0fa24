// Everything an op needs besides its tensors: device, stream and scratch
// memory. Always passed explicitly, never global.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>
#include <typeindex>
#include <unordered_map>
#include <utility>

#include "device/device.h"
#include "tensor/tensor.h"

namespace syncopate {

// Whether equal calls must give equal bits. CPU bodies and hand-written kernels
// always do; GPU libraries also have faster algorithms that do not.
enum class Determinism : uint8_t { kRequired, kOff };

class OpListener;
class PlanChooser;

class Context {
 public:
  // `threads`: OpenMP threads of every op that runs through this context. The
  // last bits of results may depend on it, and on nothing else.
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

  // Device memory for the duration of one op call; grows to the largest
  // request. `index` distinguishes buffers that one op needs at the same time
  // (0..3).
  void* scratch(int64_t bytes, int index = 0);

  // Incremented when a scratch buffer moves: recorded work that used the old
  // one must not run again.
  uint64_t scratch_generation() const { return scratch_generation_; }

  // `listener` is notified of every op from now on; null: no listener. It must
  // outlive its registration.
  void listen(OpListener* listener) { listener_ = listener; }
  OpListener* listener() const { return listener_; }
  // `chooser` decides between the plans of a GPU's libraries (plans.h) from now
  // on; null: the one that the library expects to be the fastest. It must
  // outlive its registration.
  void choose_plans_by(PlanChooser* chooser) { plan_chooser_ = chooser; }
  PlanChooser* plan_chooser() const { return plan_chooser_; }

  // A body that delegates to a library reports which engine did the work, by a
  // name with static lifetime.
  void ran_by(std::string_view engine) { engine_ = engine; }
  std::string_view take_engine() { return std::exchange(engine_, {}); }

  // Per-context state of an op's implementation (primitives, plans), created on
  // first use and kept.
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
  OpListener* listener_ = nullptr;
  PlanChooser* plan_chooser_ = nullptr;
  std::string_view engine_;
  std::unordered_map<std::type_index, std::shared_ptr<void>> cache_;
};

}  // namespace syncopate
