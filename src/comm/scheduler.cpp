// SPDX-License-Identifier: Apache-2.0
#include "comm/scheduler.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/rng.h"
#include "comm/tags.h"

namespace syncopate {
namespace {

// Far more consecutive polls than any loop needs while nothing else can run.
constexpr int64_t kBarrenYieldLimit = 1'000'000;

constexpr size_t kMostReported = 12;  // a line that can still be read

}  // namespace

uint64_t Ties::place(int rank, Time at) const {
  const auto worker = static_cast<uint64_t>(rank);
  if (seed_ == 0) return worker;
  return Rng(seed_, Purpose::kTies, worker, std::bit_cast<uint64_t>(at))
      .next_u64();
}

bool Scheduler::Earlier::operator()(const Strand* a, const Strand* b) const {
  return std::tie(a->time, a->turns, a->place, a->serial) <
         std::tie(b->time, b->turns, b->place, b->serial);
}

std::shared_ptr<Strand> Scheduler::spawn(int rank,
                                         std::string name,
                                         Time at,
                                         size_t stack_bytes,
                                         std::function<void()> body) {
  auto strand = std::make_shared<Strand>();
  strand->rank = rank;
  strand->serial = num_spawned_++;
  strand->name = std::move(name);
  strand->fiber =
      std::make_unique<Fiber>(stacks_, stack_bytes, std::move(body));
  strands_.emplace(strand->serial, strand);
  enqueue(*strand, at);
  return strand;
}

void Scheduler::enqueue(Strand& strand, Time at) {
  strand.time = at;
  strand.place = ties_.place(strand.rank, at);
  strand.state = Strand::State::kReady;
  ready_.insert(&strand);
}

Strand& Scheduler::current() {
  CHECK_MSG(running_ != nullptr, "an endpoint is used outside its world's run");
  return *running_;
}

Time Scheduler::now() const {
  return running_ != nullptr ? running_->time : event_time_;
}

bool Scheduler::TimedCall::operator>(const TimedCall& other) const {
  return std::tie(at, place, serial) >
         std::tie(other.at, other.place, other.serial);
}

void Scheduler::call_at(Time at, int rank, std::shared_ptr<Callback> callback) {
  events_.push_back(
      {at, ties_.place(rank, at), num_events_++, rank, std::move(callback)});
  std::ranges::push_heap(events_, std::greater<>());
}

void Scheduler::run_events() {
  while (!events_.empty() && !has_failed_) {
    const Time at = events_.front().at;
    if (!ready_.empty() && (*ready_.begin())->time < at) return;
    event_time_ = at;
    std::ranges::pop_heap(events_, std::greater<>());
    TimedCall event = std::move(events_.back());
    events_.pop_back();
    // With many workers, the next callback is rarely in the cache.
    if (!events_.empty()) __builtin_prefetch(events_.front().callback.get());
    const Time again = event.callback->call();
    if (again < kNever) call_at(again, event.rank, std::move(event.callback));
  }
}

Strand* Scheduler::next() {
  run_events();
  if (has_failed_) {
    // Tasks first, the newest first: they use what their worker owns.
    Strand* const last = strands_.rbegin()->second.get();
    ready_.erase(last);
    return last;
  }
  if (ready_.empty()) return nullptr;
  Strand* strand = *ready_.begin();
  ready_.erase(ready_.begin());
  return strand;
}

void Scheduler::run() {
  CHECK(Fiber::current() == nullptr);
  while (!strands_.empty()) {
    Strand* strand = next();
    if (strand == nullptr) {
      report_deadlock();
      continue;
    }
    strand->state = Strand::State::kRunning;
    running_ = strand;
    strand->fiber->resume();
    running_ = nullptr;
    if (!strand->fiber->ended()) continue;
    strand->state = Strand::State::kEnded;
    strand->fiber.reset();
    strands_.erase(strand->serial);
  }
}

void Scheduler::switch_out() {
  Fiber::suspend();
  check_alive();
}

void Scheduler::block(const DescribeAwaited& awaited) {
  check_alive();
  Strand& self = current();
  self.awaited = &awaited;
  self.state = Strand::State::kBlocked;
  self.blocked_at = self.time;
  self.turns = 0;
  self.may_wake_earlier = true;
  switch_out();
  self.may_wake_earlier = false;
}

void Scheduler::block_until(Time at) {
  check_alive();
  Strand& self = current();
  self.blocked_at = self.time;
  self.turns = 0;
  self.may_wake_earlier = true;
  enqueue(self, std::max(self.time, at));
  switch_out();
  self.may_wake_earlier = false;
}

void Scheduler::sleep_until(Time at) {
  check_alive();
  Strand& self = current();
  if (at <= self.time) return;
  note_progress();
  self.turns = 0;
  enqueue(self, at);
  switch_out();
}

void Scheduler::yield(Time own_event) {
  check_alive();
  Strand& self = current();
  // Whether another strand runs at this moment before this one's next turn.
  bool is_somebody_left = false;
  int64_t most_turns = self.turns;
  Time soonest = own_event > self.time ? own_event : kNever;
  if (!events_.empty()) {
    const Time event = events_.front().at;
    if (event <= self.time) is_somebody_left = true;
    soonest = std::min(soonest, event);
  }
  for (const Strand* other : ready_) {
    if (other->time > self.time) {
      soonest = std::min(soonest, other->time);
      break;
    }
    most_turns = std::max(most_turns, other->turns);
    if (self.turns == 0 || other->turns <= self.turns) is_somebody_left = true;
  }
  if (is_somebody_left) {
    self.turns = most_turns + 1;
    enqueue(self, self.time);
  } else if (soonest < kNever) {
    self.turns = 1;
    enqueue(self, soonest);
  } else {
    if (++barren_yields_ >= kBarrenYieldLimit) {
      report_deadlock();
      check_alive();
    }
    self.turns += 1;
    enqueue(self, self.time);
  }
  switch_out();
}

void Scheduler::wake(Strand& strand, Time at) {
  note_progress();
  const Time when = std::max(strand.blocked_at, at);
  if (strand.state == Strand::State::kBlocked) {
    enqueue(strand, when);
  } else if (strand.state == Strand::State::kReady && strand.may_wake_earlier &&
             when < strand.time) {
    ready_.erase(&strand);
    enqueue(strand, when);
  }
}

void Scheduler::fail_all(const std::string& reason) {
  if (has_failed_) return;
  has_failed_ = true;
  reason_ = reason;
}

void Scheduler::check_alive() const {
  if (has_failed_) throw Error(ExitCode::kPeerLost, reason_);
}

Awaited Scheduler::awaited_by(const Strand& strand) {
  if (strand.state == Strand::State::kBlocked) return (*strand.awaited)();
  const auto& [from, tag] = strand.polled;
  if (from < 0) return {"an event that cannot occur"};
  return {
      fmt::format("a message from worker {}, {} (tag {}), for which it polls",
                  from, tags::name_of(tag), tag),
      from};
}

void Scheduler::report_deadlock() {
  struct Waiter {
    const Strand* strand;
    Awaited awaited;
  };
  std::vector<Waiter> waiters;
  std::map<int, int> num_waiting_for;  // by rank
  for (const auto& [serial, strand] : strands_) {
    waiters.push_back({strand.get(), awaited_by(*strand)});
    ++num_waiting_for[waiters.back().awaited.rank];
  }
  std::ranges::stable_sort(waiters, [&](const Waiter& a, const Waiter& b) {
    return num_waiting_for[a.strand->rank] > num_waiting_for[b.strand->rank];
  });
  std::string who;
  for (size_t i = 0; i < std::min(kMostReported, waiters.size()); ++i)
    who += fmt::format("{}{} at {:.6g} s waits for {}", i > 0 ? "; " : "",
                       waiters[i].strand->name, waiters[i].strand->time,
                       waiters[i].awaited.what);
  if (waiters.size() > kMostReported)
    who += fmt::format("; and {} more", waiters.size() - kMostReported);
  deadlock_ = "deadlock: no worker can continue: " + who;
  fail_all(deadlock_);
}

}  // namespace syncopate
