// A function with a stack of its own that can be left in the middle and gone
// on with later, always on the thread that made it.
//
// Never suspend inside a catch block or while another fiber's exception is
// handled: the C++ runtime keeps one chain of caught exceptions a thread, and
// `throw;` would then rethrow a stranger's. suspend() refuses it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace syncopate {

// Address space below which one page is kept unmapped, so that an overflow is
// a crash and not a corruption. Pages cost memory only once touched.
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
};

// Keeps the stacks of ended fibers for the next ones of the same size.
class FiberStackPool {
 public:
  FiberStack take(size_t bytes);
  void give(FiberStack stack);

 private:
  std::vector<FiberStack> free_;
};

class Fiber {
 public:
  // `body` must let no exception out.
  Fiber(FiberStackPool& pool, size_t stack_bytes, std::function<void()> body);
  ~Fiber();  // of a fiber that has ended, or was never resumed
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void resume();  // runs it until it suspends or ends
  bool ended() const;

  // Back to whoever resumed the running fiber.
  static void suspend();
  static Fiber* current();  // null outside fibers

 private:
  struct Context;  // of Boost.Context and the sanitizers
  void enter();
  FiberStackPool& pool_;
  FiberStack stack_;
  std::unique_ptr<Context> context_;
};

// Worker stacks carry oneDNN and the master thread of OpenMP; task stacks carry
// collectives, MPI and CUDA's copies.
inline constexpr size_t kWorkerStackBytes = size_t{8} << 20;
inline constexpr size_t kTaskStackBytes = size_t{1} << 20;

}  // namespace syncopate
