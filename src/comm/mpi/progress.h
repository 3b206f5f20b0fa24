// The communication thread of a rank, the only caller of MPI between
// construction and stop(). It takes operations and tasks from the worker's
// thread, tests what is in flight, and runs tasks as fibers. It never blocks
// inside MPI, where waiting means spinning (5 ms per Allreduce with more ranks
// than cores).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/mpi/transfers.h"

namespace syncopate::mpi {

class Progress {
 public:
  explicit Progress(Communicators& communicators);
  ~Progress();  // after stop()

  // drain: completes everything that was started first. abandon: gives up what
  // is in flight, and makes tasks' waits throw Error(kPeerLost).
  enum class Stop : uint8_t { kDrain, kAbandon };
  void stop(Stop how);  // idempotent
  // After stop(): the error of a task that failed and was never joined.
  std::exception_ptr unjoined_error() const;

  // Callable from either thread.
  void post(std::shared_ptr<Operation> operation);
  void post(std::shared_ptr<TaskOnThread> task);
  // Returns when the flag is set; `task` is the caller, or null for the worker.
  void await(const std::atomic<bool>& flag, TaskOnThread* task);
  void yield(TaskOnThread* task);
  void check_alive() const;  // on this thread; throws once abandoned
  bool is_this_thread() const;

  // For a task: returns the communicator of a group's native collectives,
  // created together with the other members on first use.
  MPI_Comm native_communicator(const Group& group, TaskOnThread* task);

 private:
  struct Posted {  // exactly one is set
    std::shared_ptr<Operation> operation;
    std::shared_ptr<TaskOnThread> task;
  };

  void thread_main();
  void loop();
  void hand_over(Posted posted);
  void take_posted();
  void run_tasks();
  void run_body(TaskOnThread& task);
  // Nothing has moved for `still_s`; is_quiet: nor is there anything to move.
  void rest(bool is_quiet, double still_s);
  void give_up(const std::exception_ptr& error);
  void set(std::atomic<bool>& flag);  // and wakes a waiting worker
  void meet(const Group& group, TaskOnThread* task);

  Communicators& communicators_;

  // Shared with the worker's thread.
  std::mutex mutex_;
  std::condition_variable posted_signal_, done_signal_;
  std::vector<Posted> posted_;  // under mutex_
  std::atomic<bool> has_posted_ = false, is_resting_ = false;
  std::atomic<bool> is_stopping_ = false, must_abandon_ = false;
  std::atomic<const std::atomic<bool>*> worker_waits_for_ = nullptr;

  // For the communication thread only.
  bool is_abandoned_ = false;
  std::exception_ptr ending_;  // what waits throw once abandoned
  FiberStackPool stacks_;
  Transfers transfers_;
  std::vector<std::shared_ptr<TaskOnThread>> tasks_, failed_tasks_;
  bool has_moved_ = false;
  bool is_making_communicator_ = false;
  double crowded_until_s_ = 0;

  std::thread thread_;
};

}  // namespace syncopate::mpi
