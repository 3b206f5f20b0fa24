// SPDX-License-Identifier: Apache-2.0
#include "comm/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <boost/context/fiber.hpp>
#include <cstdlib>
#include <exception>
#include <utility>

#include "base/check.h"

// The sanitizers must be told of every stack switch. Only this file depends on
// which of them is built in.
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace syncopate {
namespace {

#if defined(__SANITIZE_ADDRESS__)
// One side of a switch: its own fake stack, and the bounds of the other side.
struct StackSwitch {
  void* fake_stack = nullptr;
  const void* other_bottom = nullptr;
  size_t other_bytes = 0;
  void leave(const void* to_bottom, size_t to_bytes) {
    __sanitizer_start_switch_fiber(&fake_stack, to_bottom, to_bytes);
  }
  void leave_for_ever(const void* to_bottom, size_t to_bytes) {
    __sanitizer_start_switch_fiber(nullptr, to_bottom, to_bytes);
  }
  void arrive() {
    __sanitizer_finish_switch_fiber(fake_stack, &other_bottom, &other_bytes);
  }
};
void forget_stack(std::byte* bottom, size_t bytes) {
  __asan_unpoison_memory_region(bottom, bytes);
}
#else
struct StackSwitch {
  const void* other_bottom = nullptr;
  size_t other_bytes = 0;
  void leave(const void*, size_t) {}
  void leave_for_ever(const void*, size_t) {}
  void arrive() {}
};
void forget_stack(std::byte*, size_t) {}
#endif

#if defined(__SANITIZE_THREAD__)
struct ThreadIdentity {
  void* own = __tsan_create_fiber(0);
  void* caller = nullptr;
  ~ThreadIdentity() { __tsan_destroy_fiber(own); }
  void enter() {
    caller = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(own, 0);
  }
  void leave() { __tsan_switch_to_fiber(caller, 0); }
};
#else
struct ThreadIdentity {
  void enter() {}
  void leave() {}
};
#endif

// The Fiber owns the stack; Boost must not free it.
struct BorrowedStack {
  boost::context::stack_context allocate() { return {}; }
  void deallocate(boost::context::stack_context&) noexcept {}
};

thread_local Fiber* current_fiber = nullptr;

// MADV_GUARD_INSTALL, which Linux has since 6.13 and headers may not know.
constexpr int kGuardInstall = 102;

// A page that is protected in the old way divides a mapping, and a process may
// have only 65,530 of them by default.
constexpr int kMostDivided = 16384;
std::atomic<int> num_divided = 0;

// Makes the page inaccessible. Returns whether that has divided the mapping.
// Beyond kMostDivided, the page stays as it is: all stacks run the same code,
// and the others are guarded.
bool guard(void* page, size_t bytes) {
  if (madvise(page, bytes, kGuardInstall) == 0) return false;
  if (num_divided.fetch_add(1) < kMostDivided) {
    CHECK(mprotect(page, bytes, PROT_NONE) == 0);
    return true;
  }
  num_divided.fetch_sub(1);
  return false;
}

}  // namespace

FiberStack::FiberStack(size_t bytes) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  bytes_ = (bytes + page - 1) / page * page;
  void* base =
      mmap(nullptr, bytes_ + page, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (base == MAP_FAILED)
    fail_errno(ExitCode::kInternal, "memory", "stack of a worker");
  divides_ = guard(base, page);
  bottom_ = static_cast<std::byte*>(base) + page;
}

FiberStack::~FiberStack() {
  if (bottom_ == nullptr) return;
  forget_stack(bottom_, bytes_);
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  munmap(bottom_ - page, bytes_ + page);
  if (divides_) num_divided.fetch_sub(1);
}

FiberStack::FiberStack(FiberStack&& other) noexcept
    : bottom_(std::exchange(other.bottom_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      divides_(std::exchange(other.divides_, false)) {}

FiberStack& FiberStack::operator=(FiberStack&& other) noexcept {
  std::swap(bottom_, other.bottom_);
  std::swap(bytes_, other.bytes_);
  std::swap(divides_, other.divides_);
  return *this;
}

FiberStack FiberStackPool::take(size_t bytes) {
  for (size_t i = free_.size(); i-- > 0;) {
    if (free_[i].bytes() < bytes || free_[i].bytes() > 2 * bytes) continue;
    FiberStack stack = std::move(free_[i]);
    free_.erase(free_.begin() + static_cast<ptrdiff_t>(i));
    return stack;
  }
  return FiberStack(bytes);
}

void FiberStackPool::give(FiberStack stack) {
  forget_stack(stack.bottom(), stack.bytes());
  free_.push_back(std::move(stack));
}

struct Fiber::Context {
  boost::context::fiber inside;   // the fiber, while it is suspended
  boost::context::fiber outside;  // its resumer, while it runs
  StackSwitch resumer_side, fiber_side;
  ThreadIdentity identity;
  std::function<void()> body;
  bool has_started = false;
  bool ended = false;
};

Fiber::Fiber(FiberStackPool& pool,
             size_t stack_bytes,
             std::function<void()> body)
    : pool_(pool),
      stack_(pool.take(stack_bytes)),
      context_(std::make_unique<Context>()) {
  context_->body = std::move(body);
  boost::context::stack_context bounds;
  bounds.size = stack_.bytes();
  bounds.sp = stack_.bottom() + stack_.bytes();
  Context* context = context_.get();
  context_->inside = boost::context::fiber(
      std::allocator_arg,
      boost::context::preallocated(bounds.sp, bounds.size, bounds),
      BorrowedStack{}, [context](boost::context::fiber&& outside) {
        context->fiber_side.arrive();
        context->outside = std::move(outside);
        // Unwinding a fiber that was never resumed ends here.
        if (context->has_started) context->body();
        context->body = nullptr;
        context->ended = true;
        context->identity.leave();
        context->fiber_side.leave_for_ever(context->fiber_side.other_bottom,
                                           context->fiber_side.other_bytes);
        return std::move(context->outside);
      });
}

Fiber::~Fiber() {
  // Destroying a suspended boost fiber would unwind it with an exception that
  // bodies might catch, so owners run every started fiber to completion.
  if (context_->has_started && !context_->ended) std::abort();
  if (!context_->has_started) enter();
  context_.reset();
  pool_.give(std::move(stack_));
}

void Fiber::resume() {
  CHECK(!context_->ended);
  context_->has_started = true;
  enter();
}

void Fiber::enter() {
  Context& context = *context_;
  Fiber* const previous = std::exchange(current_fiber, this);
  context.resumer_side.leave(stack_.bottom(), stack_.bytes());
  context.identity.enter();
  context.inside = std::move(context.inside).resume();
  context.resumer_side.arrive();
  current_fiber = previous;
}

void Fiber::suspend() {
  CHECK(current_fiber != nullptr);
  CHECK_MSG(std::current_exception() == nullptr,
            "waiting inside a catch block");
  Context& context = *current_fiber->context_;
  context.identity.leave();
  context.fiber_side.leave(context.fiber_side.other_bottom,
                           context.fiber_side.other_bytes);
  context.outside = std::move(context.outside).resume();
  context.fiber_side.arrive();
}

bool Fiber::ended() const {
  return context_->ended;
}

Fiber* Fiber::current() {
  return current_fiber;
}

}  // namespace syncopate
