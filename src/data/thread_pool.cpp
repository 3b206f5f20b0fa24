#include "data/thread_pool.h"

#include <sched.h>
#include <unistd.h>
#include <algorithm>

#include "base/check.h"
#include "base/thread.h"

namespace syncopate {

// Indices are handed out in order, so that when one fails, all smaller ones
// have started; the smallest index that fails is therefore always found.
struct ThreadPool::Job {
  int64_t count;
  const std::function<void(int64_t)>& body;
  int64_t next = 0;
  int helpers = 0;  // threads working on it
  int64_t failed = INT64_MAX;
  std::exception_ptr error = nullptr;
};

ThreadPool::ThreadPool(int threads) : threads_(threads) {
  CHECK(threads >= 1);
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wanted_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void ThreadPool::run(int64_t count, const std::function<void(int64_t)>& body) {
  Job job{count, body};
  {
    const std::lock_guard lock(mutex_);
    while (std::ssize(helpers_) < threads_ - 1)
      helpers_.push_back(start_without_signals([this] { help(); }));
    jobs_.push_back(&job);
  }
  wanted_.notify_all();
  work(job);
  std::unique_lock lock(mutex_);
  left_.wait(lock, [&] { return job.helpers == 0; });
  if (job.error) std::rethrow_exception(job.error);
}

// Returns, and removes the job from the list, when no index is left.
void ThreadPool::work(Job& job) {
  for (;;) {
    int64_t index = 0;
    {
      const std::lock_guard lock(mutex_);
      if (job.next == job.count || job.error) {
        std::erase(jobs_, &job);
        return;
      }
      index = job.next++;
    }
    try {
      job.body(index);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (index < job.failed) {
        job.failed = index;
        job.error = std::current_exception();
      }
    }
  }
}

void ThreadPool::help() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_.wait(lock, [&] { return is_stopping_ || !jobs_.empty(); });
    if (is_stopping_) return;
    Job& job = *jobs_.front();
    ++job.helpers;
    lock.unlock();
    work(job);
    lock.lock();
    if (--job.helpers == 0) left_.notify_all();
  }
}

int usable_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0)
    return std::max(1, CPU_COUNT(&cores));
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace syncopate
