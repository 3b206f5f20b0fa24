// Threads that share out the images of a batch: decoding and resampling.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace syncopate {

// Several threads may run() at once; the helpers take their calls in turn.
class ThreadPool {
 public:
  // `threads` counts the caller of run(): one less are started, when first
  // needed.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // body(0) ... body(count - 1), in any order and at once. After an exception
  // no more are begun; the one of the smallest index is thrown here, so that
  // what is thrown does not depend on the number of threads.
  void run(int64_t count, const std::function<void(int64_t)>& body);

 private:
  struct Job;

  void help();
  void work(Job& job);

  const int threads_;
  std::mutex mutex_;
  std::condition_variable wanted_, left_;
  std::deque<Job*> jobs_;  // with indices to hand out
  bool is_stopping_ = false;
  std::vector<std::thread> helpers_;
};

// Cores that this process may use.
int usable_cores();

}  // namespace syncopate
