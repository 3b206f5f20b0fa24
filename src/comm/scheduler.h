// Runs fibers in the order of a virtual clock: the one with the smallest time
// next, ties by rank, then in the order they were started. What happens
// depends on nothing else, so a run repeats exactly.
//
// A strand (a worker, or a task beside one) runs without interruption until it
// waits, and when it runs no other strand's clock is behind its own: whatever
// is sent later arrives no earlier than now.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "comm/endpoint.h"
#include "comm/fiber.h"

namespace syncopate {

// One line of execution with a clock of its own.
struct Strand {
  int rank = 0;
  int64_t serial = 0;  // 0 the worker, then its tasks as started
  std::string name;
  Time time = 0;
  // Above 0 once it has given up its turn at this time: runs after those with
  // less.
  int64_t turns = 0;
  enum class State : uint8_t { kReady, kRunning, kBlocked, kEnded };
  State state = State::kReady;
  Time blocked_at = 0;  // its clock when it began to wait
  bool may_wake_earlier = false;
  std::string waits_for;  // for the report of a deadlock
  std::unique_ptr<Fiber> fiber;
};

class Scheduler {
 public:
  // A new strand, ready at `at`. `body` must let no exception out.
  std::shared_ptr<Strand> spawn(int rank,
                                std::string name,
                                Time at,
                                size_t stack_bytes,
                                std::function<void()> body);

  // Until all strands have ended. When none can go on, all waits fail.
  void run();

  Strand& current();

  // Waits of the running strand. All throw Error(kPeerLost) once fail_all()
  // was called: it is about to happen anyway that a peer is missing.
  void block(std::string waits_for);                 // until wake()
  void block_until(Time at, std::string waits_for);  // wake() may be earlier
  void sleep_until(Time at);
  // Others whose clock is not ahead run first. If there are none, the clock
  // moves to the next moment at which anything can happen: another strand's
  // turn or `own_event`, if it is ahead.
  void yield(Time own_event);

  // A waiting strand goes on at `at`, or at its own clock if that is ahead.
  void wake(Strand& strand, Time at);

  // Something happened that a strand which polls may be waiting for.
  void note_progress() { barren_yields_ = 0; }

  // Every wait, now and later, throws Error(kPeerLost, reason).
  void fail_all(const std::string& reason);
  void check_alive() const;  // throws that, after fail_all()
  // Not empty once all were found waiting: who waits for what.
  const std::string& deadlock() const { return deadlock_; }

 private:
  struct Earlier {
    bool operator()(const Strand* a, const Strand* b) const;
  };
  void enqueue(Strand& strand, Time at);
  void switch_out();  // back to run(), until it is this strand's turn
  Strand* next();
  void report_deadlock();

  FiberStackPool stacks_;
  std::vector<std::shared_ptr<Strand>> strands_;  // not ended, as started
  std::set<Strand*, Earlier> ready_;
  Strand* running_ = nullptr;
  int64_t num_spawned_ = 0;
  int64_t barren_yields_ = 0;  // in a row, with nothing else going on
  bool has_failed_ = false;
  std::string reason_, deadlock_;
};

}  // namespace syncopate
