// Runs fibers in the order of a virtual clock: smallest time first, ties broken
// by rank (or a seeded permutation of the ranks), then by the order in which
// they were started. Nothing else influences the order, so a run repeats
// exactly.
//
// A strand (a worker or one of its tasks) runs without interruption until it
// waits. While it runs, no other strand's clock is behind its own: whatever is
// sent later arrives no earlier than now. Events (callbacks at a given time)
// run before the strands of their time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "comm/endpoint.h"
#include "comm/fiber.h"

namespace syncopate {

// The order of workers that act at the same moment: by rank or, with a seed
// other than 0, one that is random at each moment.
class Ties {
 public:
  explicit Ties(uint64_t seed) : seed_(seed) {}
  uint64_t place(int rank, Time at) const;

 private:
  uint64_t seed_;
};

// What a strand waits for, for the report of a deadlock.
struct Awaited {
  std::string
      what;       // "a receive of 4 bytes from worker 1, bucket 3 (tag 1027)"
  int rank = -1;  // whose turn it is; -1: of several workers, or unknown
};
// Called only for that report, while the strand waits.
using DescribeAwaited = std::function<Awaited()>;

// One thread of execution with its own clock.
struct Strand {
  int rank = 0;
  int64_t serial = 0;  // 0: the worker; then its tasks in order of start
  std::string name;
  Time time = 0;
  uint64_t place = 0;  // of ties at that time
  // Counts the turns given up at the current time; strands with fewer run
  // first.
  int64_t turns = 0;
  enum class State : uint8_t { kReady, kRunning, kBlocked, kEnded };
  State state = State::kReady;
  Time blocked_at = 0;  // its clock when it started to wait
  bool may_wake_earlier = false;
  // While it is blocked; points into its stack.
  const DescribeAwaited* awaited = nullptr;
  // The message for which its last poll was unsuccessful.
  struct Polled {
    int from = -1;  // -1: none
    Tag tag = 0;
  } polled;
  std::unique_ptr<Fiber> fiber;
};

// An event, which is called at a given time and must not wait.
class Callback {
 public:
  virtual ~Callback() = default;
  // Returns when to call it again, or infinity.
  virtual Time call() = 0;
};

class Scheduler {
 public:
  explicit Scheduler(Ties ties) : ties_(ties) {}

  // Creates a strand that is ready at `at`. `body` must not throw.
  std::shared_ptr<Strand> spawn(int rank,
                                std::string name,
                                Time at,
                                size_t stack_bytes,
                                std::function<void()> body);

  // Runs until all strands have ended. If none can proceed, all waits fail.
  void run();

  Strand& current();
  Time now() const;  // of the running strand or event

  // Calls back at `at`, which must not be behind now(). Events of the same time
  // run in the order of ties, then of these calls.
  void call_at(Time at, int rank, std::shared_ptr<Callback> callback);

  // Waits of the running strand. All throw Error(kPeerLost) after fail_all(),
  // even if the wait could still succeed.
  void block(const DescribeAwaited& awaited);  // until wake()
  void block_until(Time at);                   // wake() may be earlier
  void sleep_until(Time at);
  // Lets others whose clock is not ahead run first. If there are none, the
  // clock moves to the next moment at which anything can happen: another
  // strand's turn or `own_event`, if it is ahead.
  void yield(Time own_event);

  // Resumes a waiting strand at `at`, or at its own clock if that is ahead.
  void wake(Strand& strand, Time at);

  // Notes that something happened for which a polling strand may be waiting.
  void note_progress() { barren_yields_ = 0; }

  // Makes every wait, current and future, throw Error(kPeerLost, reason).
  void fail_all(const std::string& reason);
  void check_alive() const;  // throws that, after fail_all()
  // Says who waits for what, those first whom most others wait for; empty
  // unless all strands were found waiting.
  const std::string& deadlock() const { return deadlock_; }

 private:
  struct Earlier {
    bool operator()(const Strand* a, const Strand* b) const;
  };
  struct TimedCall {
    Time at;
    uint64_t place;
    int64_t serial;
    int rank;
    std::shared_ptr<Callback> callback;
    bool operator>(const TimedCall& other) const;
  };
  void enqueue(Strand& strand, Time at);
  void switch_out();  // back to run() until it is this strand's turn
  void run_events();  // those that come before all ready strands
  Strand* next();
  static Awaited awaited_by(const Strand& strand);
  void report_deadlock();

  const Ties ties_;
  FiberStackPool stacks_;
  // Those not ended, by serial, which is the order of their start.
  std::map<int64_t, std::shared_ptr<Strand>> strands_;
  std::set<Strand*, Earlier> ready_;
  // A heap; the first by time, place and order of call_at() is at the front.
  std::vector<TimedCall> events_;
  Strand* running_ = nullptr;
  Time event_time_ = 0;
  int64_t num_events_ = 0;
  int64_t num_spawned_ = 0;
  int64_t barren_yields_ = 0;  // consecutive ones without other progress
  bool has_failed_ = false;
  std::string reason_, deadlock_;
};

}  // namespace syncopate
