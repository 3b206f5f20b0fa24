// Items made by a thread ahead of their use.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/thread.h"

namespace syncopate {

// A ring of ahead + 1 items: those that are ready, and the one that the caller
// holds.
template <typename Item>
class ReadAhead {
 public:
  // `make(n, item)` turns `item`, which holds what an earlier call left there,
  // into the n-th item; n counts from 0. A thread that the first next() starts
  // keeps `ahead` items ready; with 0, next() calls `make` itself.
  ReadAhead(int64_t ahead, std::function<void(int64_t, Item&)> make)
      : ahead_(ahead),
        make_(std::move(make)),
        ring_(static_cast<size_t>(ahead + 1)) {}
  ~ReadAhead() {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Valid until the next call, and the caller's to move from. What `make`
  // threw is rethrown once the items before it have been handed out.
  Item& next() {
    const double begin_s = monotonic_s();
    Item& item = ahead_ > 0 ? take() : make_now();
    wait_s_ += monotonic_s() - begin_s;
    return item;
  }
  // The total time spent in next().
  double wait_s() const { return wait_s_; }

 private:
  Item& slot(int64_t n) { return ring_[static_cast<size_t>(n % (ahead_ + 1))]; }

  Item& make_now() {
    make_(num_taken_++, ring_[0]);
    return ring_[0];
  }

  bool has_free_slot() const {
    const int64_t num_held = num_taken_ > 0 ? 1 : 0;
    return num_made_ - num_taken_ + num_held <= ahead_;
  }

  void make_ahead() {
    try {
      for (;;) {
        {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, [&] { return is_stopping_ || has_free_slot(); });
          if (is_stopping_) return;
        }
        make_(num_made_, slot(num_made_));
        const std::lock_guard lock(mutex_);
        ++num_made_;
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
      changed_.notify_all();
    }
  }

  Item& take() {
    std::unique_lock lock(mutex_);
    if (!thread_.joinable())
      thread_ = start_without_signals([this] { make_ahead(); });
    changed_.wait(lock, [&] { return num_made_ > num_taken_ || error_; });
    if (num_made_ == num_taken_) std::rethrow_exception(error_);
    Item& item = slot(num_taken_++);
    changed_.notify_all();
    return item;
  }

  int64_t ahead_;
  std::function<void(int64_t, Item&)> make_;
  std::vector<Item> ring_;
  double wait_s_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t num_made_ = 0;   // written by the thread alone
  int64_t num_taken_ = 0;  // by next()
  bool is_stopping_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace syncopate
