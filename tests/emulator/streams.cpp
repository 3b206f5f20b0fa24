#include "emulator/streams.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/clock.h"

namespace syncopate::emulator {
namespace {

bool is_finished(const Streams::Queue& queue) {
  return queue.pieces.empty() && !queue.is_running;
}

bool can_run(const Streams::Queue& queue) {
  if (queue.is_running || queue.pieces.empty()) return false;
  const auto& awaited = queue.pieces.front().awaited;
  return !awaited || awaited->is_reached;
}

void execute(const Streams::Piece& piece) {
  if (piece.work) piece.work();
  if (piece.reached) piece.reached->reach();
}

}  // namespace

void Mark::reach() {
  reached_s = monotonic_s();
  is_reached = true;
}

Streams::Streams(uint64_t seed) : runs_late_(seed % 2 == 1), random_(seed) {}

std::shared_ptr<Streams::Queue> Streams::add() {
  const std::lock_guard lock(mutex_);
  queues_.push_back(std::make_shared<Queue>());
  return queues_.back();
}

void Streams::remove(const std::shared_ptr<Queue>& queue) {
  const std::lock_guard lock(mutex_);
  CHECK(queue->pieces.empty());
  std::erase(queues_, queue);
}

// At once means without the lock: threads with streams of their own run side
// by side.
void Streams::give(Queue& queue, Piece piece) {
  if (!runs_late_) {
    if (piece.awaited) finish(*piece.awaited);
    execute(piece);
    return;
  }
  const std::lock_guard lock(mutex_);
  queue.pieces.push_back(std::move(piece));
}

void Streams::finish(const Queue& queue) {
  run_until([&] { return is_finished(queue); });
}

void Streams::finish(const Mark& mark) {
  if (mark.is_reached) return;
  run_until([&] { return mark.is_reached.load(); });
}

void Streams::finish_all() {
  run_until([this] {
    return std::all_of(queues_.begin(), queues_.end(),
                       [](const auto& queue) { return is_finished(*queue); });
  });
}

bool Streams::has_reached(const Mark& mark) {
  if (mark.is_reached) return true;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || random_below(2) == 0) return false;
  constexpr uint64_t kMostAtOnce = 16;  // a part of a step
  uint64_t left = 1 + random_below(kMostAtOnce);
  run_until([&] { return mark.is_reached || left-- == 0; });
  return mark.is_reached;
}

void Streams::run_until(const std::function<bool()>& is_enough) {
  const std::lock_guard lock(mutex_);
  hold_some_back();
  try {
    while (!is_enough()) run_one();
  } catch (...) {
    drop_all();
    throw;
  }
}

void Streams::hold_some_back() {
  for (const auto& queue : queues_) queue->is_held_back = random_below(2) == 0;
}

void Streams::run_one() {
  std::vector<Queue*> able;
  for (const auto& queue : queues_)
    if (can_run(*queue)) able.push_back(queue.get());
  if (able.empty())
    fail(ExitCode::kInternal,
         "emulator: deadlock: what is waited for comes behind what waits");
  const auto held = std::partition(able.begin(), able.end(), [](Queue* queue) {
    return !queue->is_held_back;
  });
  if (held != able.begin()) able.erase(held, able.end());
  run(*able[random_below(able.size())]);
}

void Streams::run(Queue& queue) {
  const Piece piece = std::move(queue.pieces.front());
  queue.pieces.pop_front();
  queue.is_running = true;
  try {
    execute(piece);
  } catch (...) {
    queue.is_running = false;
    throw;
  }
  queue.is_running = false;
}

void Streams::drop_all() {
  for (const auto& queue : queues_)
    for (const Piece& piece : std::exchange(queue->pieces, {}))
      if (piece.reached) piece.reached->reach();
}

}  // namespace syncopate::emulator
