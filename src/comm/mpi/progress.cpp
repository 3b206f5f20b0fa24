// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/progress.h"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/thread.h"
#include "comm/mpi/mpi_check.h"
#include "watch/activity.h"
#include "watch/operations.h"

namespace syncopate::mpi {
namespace {

// How the two threads of a rank share what may be a single core. The worker
// spins for about as long as a message in shared memory takes, then sleeps. The
// communication thread polls eagerly for as long as a message may be imminent
// (far longer while the worker waits for it), then naps between polls, with
// naps that grow with the time since anything arrived: a message is delayed by
// at most a quarter of its own waiting time, and a computing worker loses about
// a percent of the core. One poll moves only part of a long message over TCP,
// and such naps would limit a gigabit link, so a waiting worker gets shorter
// naps unless no rank seems to be sending.
constexpr double kWorkerSpinS = 10e-6;
constexpr double kEagerS = 5e-3;          // the worker waits
constexpr double kEagerComputeS = 20e-6;  // the worker computes
constexpr double kNapShare = 0.25;
constexpr double kShortestNapS = 30e-6, kLongestNapS = 300e-6;
constexpr double kLongestWaitingNapS = 60e-6, kSilenceS = 0.25;
// A yield that lasts longer gave the core to a computing thread for a time
// slice of milliseconds. A thread that naps instead is scheduled again at once.
constexpr double kLongYieldS = 200e-6;
constexpr double kCrowdedS = 20e-3;
// With nothing in flight, MPI may still hold back the end of a message that it
// reported as sent, so it gets to run now and then.
constexpr double kQuietS = 100e-6;
constexpr double kQuietNapS = 10e-3;

constexpr Tag kMeetTag = 1;   // of the internal communicator
constexpr int kGroupTag = 2;  // of MPI_Comm_create_group

std::exception_ptr ending_error() {
  return std::make_exception_ptr(
      Error(ExitCode::kPeerLost, "communication of this rank has ended"));
}

}  // namespace

Progress::Progress(Communicators& communicators)
    : communicators_(communicators),
      ending_(ending_error()),
      transfers_(communicators.strays,
                 [this](Operation& operation) { set(operation.done); }) {
  thread_ = start_without_signals([this] { thread_main(); });
}

Progress::~Progress() {
  if (thread_.joinable()) stop(Stop::kAbandon);
}

void Progress::stop(Stop how) {
  if (!thread_.joinable()) return;
  if (how == Stop::kAbandon) must_abandon_ = true;
  is_stopping_ = true;
  {
    const std::lock_guard lock(mutex_);
    posted_signal_.notify_one();
  }
  thread_.join();
}

std::exception_ptr Progress::unjoined_error() const {
  for (const auto& task : failed_tasks_) {
    if (!task->is_joined) return task->error;
  }
  return nullptr;
}

bool Progress::is_this_thread() const {
  return thread_.get_id() == std::this_thread::get_id();
}

void Progress::check_alive() const {
  if (is_abandoned_) std::rethrow_exception(ending_);
}

void Progress::post(std::shared_ptr<Operation> operation) {
  if (is_this_thread())
    transfers_.begin(operation);
  else
    hand_over({std::move(operation), nullptr});
}

void Progress::post(std::shared_ptr<TaskOnThread> task) {
  if (is_this_thread())
    tasks_.push_back(std::move(task));
  else
    hand_over({nullptr, std::move(task)});
}

void Progress::hand_over(Posted posted) {
  const std::lock_guard lock(mutex_);
  posted_.push_back(std::move(posted));
  has_posted_ = true;
  if (is_resting_) posted_signal_.notify_one();
}

void Progress::await(const std::atomic<bool>& flag, TaskOnThread* task) {
  if (task != nullptr) {
    if (flag) return;
    check_alive();
    task->waits_for = &flag;
    Fiber::suspend();
    task->waits_for = nullptr;
    check_alive();
    return;
  }
  if (flag) return;
  activity().wait_begins();
  worker_waits_for_ = &flag;
  if (is_resting_) {
    const std::lock_guard lock(mutex_);
    posted_signal_.notify_one();
  }
  for (const double start = monotonic_s();
       !flag && monotonic_s() - start < kWorkerSpinS;) {
    sched_yield();
  }
  if (!flag) {
    std::unique_lock lock(mutex_);
    done_signal_.wait(lock, [&] { return flag.load(); });
  }
  worker_waits_for_ = nullptr;
  activity().wait_ends();
}

void Progress::set(std::atomic<bool>& flag) {
  // The flag's owner may be destroyed as soon as the flag is seen.
  const std::atomic<bool>* const address = &flag;
  flag = true;
  if (worker_waits_for_ != address) return;
  const std::lock_guard lock(mutex_);
  done_signal_.notify_one();
}

void Progress::yield(TaskOnThread* task) {
  if (task == nullptr) {
    std::this_thread::yield();
    return;
  }
  check_alive();
  task->is_polling = true;
  Fiber::suspend();
  task->is_polling = false;
  check_alive();
}

void Progress::thread_main() {
  prctl(PR_SET_NAME, "communication");
  // The default timer slack would add 50 microseconds to every nap.
  prctl(PR_SET_TIMERSLACK, 1000);
  std::exception_ptr error;
  try {
    loop();
  } catch (...) {
    error = std::current_exception();
  }
  if (error != nullptr) {
    // MPI itself or a service has failed: everything, now and later, fails with
    // its error.
    give_up(error);
    while (!is_stopping_) {
      take_posted();
      run_tasks();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  give_up(ending_);
}

void Progress::loop() {
  double moved_s = monotonic_s();
  while (!must_abandon_) {
    has_moved_ = false;
    take_posted();
    if (transfers_.poll()) has_moved_ = true;
    run_tasks();
    if (has_moved_) {
      moved_s = monotonic_s();
      continue;
    }
    const bool is_quiet = tasks_.empty() && transfers_.is_quiet();
    if (is_quiet && is_stopping_ && !has_posted_) return;
    rest(is_quiet, monotonic_s() - moved_s);
  }
}

void Progress::take_posted() {
  if (!has_posted_) return;
  std::vector<Posted> posted;
  {
    const std::lock_guard lock(mutex_);
    posted.swap(posted_);
    has_posted_ = false;
  }
  has_moved_ = true;
  for (size_t i = 0; i < posted.size(); ++i) {
    if (posted[i].task != nullptr) {
      tasks_.push_back(std::move(posted[i].task));
      continue;
    }
    try {
      transfers_.begin(posted[i].operation);
    } catch (...) {
      // give_up() notifies all waits for this operation and later ones.
      const std::lock_guard lock(mutex_);
      posted_.insert(
          posted_.begin(),
          std::make_move_iterator(posted.begin() + static_cast<ptrdiff_t>(i)),
          std::make_move_iterator(posted.end()));
      has_posted_ = true;
      throw;
    }
  }
}

void Progress::run_body(TaskOnThread& task) {
  try {
    check_alive();
    task.body();
  } catch (...) {
    task.error = std::current_exception();
  }
  task.body = nullptr;
}

void Progress::run_tasks() {
  // Tasks may start tasks, which grows the vector during the loop.
  for (size_t i = 0; i < tasks_.size(); ++i) {
    const std::shared_ptr<TaskOnThread> task = tasks_[i];
    if (task->waits_for != nullptr && !*task->waits_for && !is_abandoned_)
      continue;
    if (task->fiber == nullptr)
      task->fiber = std::make_unique<Fiber>(
          stacks_, kTaskStackBytes, [this, &task = *task] { run_body(task); });
    task->fiber->resume();
    const bool has_ended = task->fiber->ended();
    if (has_ended || !task->is_polling) has_moved_ = true;
    if (!has_ended) continue;
    task->fiber.reset();
    operations().end(task->record);
    if (task->error != nullptr) failed_tasks_.push_back(task);
    tasks_[i] = nullptr;
    set(task->done);
    // Those waiting for its answers would otherwise wait for ever.
    if (task->error != nullptr && task->is_service && !is_abandoned_) {
      std::erase(tasks_, nullptr);
      std::rethrow_exception(task->error);
    }
  }
  std::erase(tasks_, nullptr);
}

void Progress::rest(bool is_quiet, double still_s) {
  const bool worker_waits = worker_waits_for_ != nullptr;
  const double eager_s = is_quiet       ? kQuietS
                         : worker_waits ? kEagerS
                                        : kEagerComputeS;
  if (is_quiet) transfers_.progress();
  const double now_s = monotonic_s();
  if (still_s < eager_s && now_s > crowded_until_s_) {
    sched_yield();
    const double back_s = monotonic_s();
    if (back_s - now_s > kLongYieldS) crowded_until_s_ = back_s + kCrowdedS;
    return;
  }
  std::unique_lock lock(mutex_);
  is_resting_ = true;
  if (!has_posted_ && !is_stopping_) {
    const double longest_s = worker_waits && still_s < kSilenceS
                                 ? kLongestWaitingNapS
                                 : kLongestNapS;
    const double nap_s =
        is_quiet ? kQuietNapS
                 : std::clamp(kNapShare * still_s, kShortestNapS, longest_s);
    posted_signal_.wait_for(lock, std::chrono::duration<double>(nap_s));
  }
  is_resting_ = false;
}

// Fails what is in flight, so that every task fails at its wait. Only then may
// tasks go on, because they free the memory of their messages as they fail.
void Progress::give_up(const std::exception_ptr& error) {
  ending_ = error;
  transfers_.abandon(error);
  is_abandoned_ = true;
  take_posted();
  while (!tasks_.empty()) run_tasks();
  take_posted();
}

void Progress::meet(const Group& group, TaskOnThread* task) {
  const int n = group.size();
  for (int distance = 1; distance < n; distance *= 2) {
    const auto begin = [&](Operation::Kind kind, int shift) {
      auto operation = std::make_shared<Operation>();
      operation->kind = kind;
      operation->comm = communicators_.internal;
      operation->rank = communicators_.rank;
      operation->peer = group.members[(group.position + shift + n) % n];
      operation->tag = kMeetTag;
      transfers_.begin(operation);
      return operation;
    };
    const auto send = begin(Operation::Kind::kSend, distance);
    const auto receive = begin(Operation::Kind::kReceive, -distance);
    await(receive->done, task);
    await(send->done, task);
  }
}

// MPI_Comm_create_group blocks, so its members first meet by messages: then
// each enters it at once, and none waits inside it for a rank whose fibers need
// this one. Only one is created at a time, because two could deadlock.
MPI_Comm Progress::native_communicator(const Group& group, TaskOnThread* task) {
  while (is_making_communicator_) yield(task);
  const auto known = communicators_.native.find(group.members);
  if (known != communicators_.native.end()) return known->second;
  is_making_communicator_ = true;
  meet(group, task);
  MPI_Group world = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
  MPI_Comm made = MPI_COMM_NULL;
  CHECK_MPI(MPI_Comm_group(communicators_.internal, &world));
  CHECK_MPI(
      MPI_Group_incl(world, group.size(), group.members.data(), &members));
  CHECK_MPI(MPI_Comm_create_group(communicators_.internal, members, kGroupTag,
                                  &made));
  CHECK_MPI(MPI_Group_free(&members));
  CHECK_MPI(MPI_Group_free(&world));
  communicators_.native[group.members] = made;
  is_making_communicator_ = false;
  return made;
}

}  // namespace syncopate::mpi
