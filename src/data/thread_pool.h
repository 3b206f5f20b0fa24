// Threads that divide a loop among themselves, e.g. the images of a batch.
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

// Several threads may call run() at once; the helpers serve them in turn.
class ThreadPool {
 public:
  // `threads` includes the caller of run(); the others are started by the first
  // run().
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls body(0) ... body(count - 1) concurrently, in any order. After an
  // exception no further call starts. Of several exceptions the one with the
  // smallest index is rethrown, which does not depend on the number of threads.
  void run(int64_t count, const std::function<void(int64_t)>& body);

 private:
  struct Job;

  void help();
  void work(Job& job);

  const int threads_;
  std::mutex mutex_;
  std::condition_variable wanted_, left_;
  std::deque<Job*> jobs_;  // that have indices left to hand out
  bool is_stopping_ = false;
  std::vector<std::thread> helpers_;
};

// Number of cores that this process may use.
int usable_cores();

}  // namespace syncopate
