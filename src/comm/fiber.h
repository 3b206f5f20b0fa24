// A function with its own stack that can be suspended and resumed, always on
// the thread that created it.
//
// Never suspend inside a catch block or while another fiber's exception is
// handled: the C++ runtime keeps one chain of caught exceptions per thread, and
// `throw;` would then rethrow another fiber's. suspend() checks for this.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace syncopate {

// Stack memory above an inaccessible guard page, so that an overflow crashes
// instead of corrupting memory. Pages cost memory only once touched.
class FiberStack {
 public:
  explicit FiberStack(size_t bytes);
  ~FiberStack();
  FiberStack(FiberStack&& other) noexcept;
  FiberStack& operator=(FiberStack&& other) noexcept;

  std::byte* bottom() const { return bottom_; }  // above the guard page
  size_t bytes() const { return bytes_; }

 private:
  std::byte* bottom_ = nullptr;
  size_t bytes_ = 0;
  bool divides_ = false;  // its guard page divides the mapping in two
};

// Recycles the stacks of ended fibers for new ones of the same size.
class FiberStackPool {
 public:
  FiberStack take(size_t bytes);
  void give(FiberStack stack);

 private:
  std::vector<FiberStack> free_;
};

class Fiber {
 public:
  // `body` must not throw.
  Fiber(FiberStackPool& pool, size_t stack_bytes, std::function<void()> body);
  ~Fiber();  // has ended, or was never resumed
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void resume();  // runs until it suspends or ends
  bool ended() const;

  // Returns control to the resumer of the running fiber.
  static void suspend();
  static Fiber* current();  // null outside fibers

 private:
  struct Context;  // of Boost.Context and the sanitizers
  void enter();
  FiberStackPool& pool_;
  FiberStack stack_;
  std::unique_ptr<Context> context_;
};

// Worker stacks must hold oneDNN and OpenMP's master thread; task stacks must
// hold collectives, MPI and CUDA copies.
inline constexpr size_t kWorkerStackBytes = size_t{8} << 20;
inline constexpr size_t kTaskStackBytes = size_t{1} << 20;

}  // namespace syncopate
