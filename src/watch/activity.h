// What this process is doing, for the watchdog: written by worker threads, read
// at any moment by the watching thread. Lock-free.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/choice.h"

namespace syncopate {

enum class Stage : uint8_t {
  kStart,       // up to the first step: input, data, initial values
  kStep,        // training steps and the exchanges within them
  kCollective,  // the update of a step, which waits for peers
  kBoundary,    // between steps, where all ranks meet
  kEvaluation,
  kCheckpoint,
  kEnd,
};
constexpr const char* names_of(Stage) {
  return "start step collective boundary evaluation checkpoint end";
}

// Seconds for which this process was seen to run, in ticks of the watchdog (a
// tenth of a second; stays 0 without one). The clock does not advance while the
// process is stopped or its machine asleep. Reading it costs one load.
class WatchClock {
 public:
  double now_s() const { return now_s_.load(std::memory_order_relaxed); }
  void advance(double seconds) { now_s_ = now_s() + seconds; }

 private:
  std::atomic<double> now_s_ = 0;
};
WatchClock& watch_clock();  // of this process

class Activity {
 public:
  struct Now {
    Stage stage = Stage::kStart;
    int64_t step = 0;         // the worker's own count
    bool is_waiting = false;  // for other ranks
    bool is_at_storage = false;
    double since_s = 0;   // when the stage was entered, by watch_clock()
    double worked_s = 0;  // when the worker itself last made progress
    double moved_s = 0;   // same, or when a message came or left
  };

  // Notes that the worker has entered a stage, which is progress.
  void enter(Stage stage, int64_t step);
  // Notes progress within a stage: a batch evaluated, a file read.
  void progress();
  // Bracket a wait for other ranks, which does not count against this worker.
  void wait_begins() { is_waiting_.store(true, std::memory_order_relaxed); }
  void wait_ends();
  // Bracket a possible wait for storage within a step: the I/O limit applies
  // instead, starting afresh at the beginning and after the end. Use AtStorage.
  void storage_begins();
  void storage_ends();
  // Notes that a message came or left, or one of the worker's tasks ended.
  void message_moved();

  Now now() const;
  // Returns the median of the last steps, or 0 for fewer than five.
  double median_step_s() const;

 private:
  static constexpr size_t kSteps = 15;

  std::atomic<Stage> stage_ = Stage::kStart;
  std::atomic<int64_t> step_ = 0;
  std::atomic<bool> is_waiting_ = false, is_at_storage_ = false;
  std::atomic<double> since_s_ = 0, worked_s_ = 0, moved_s_ = 0;
  std::atomic<double> step_began_s_ = -1;  // negative: no step in progress
  std::atomic<uint64_t> num_steps_ = 0;
  std::array<std::atomic<double>, kSteps> steps_s_ = {};
};

Activity& activity();  // of this process

// Brackets a possible wait for storage within a step.
class AtStorage {
 public:
  AtStorage() { activity().storage_begins(); }
  ~AtStorage() { activity().storage_ends(); }
  AtStorage(const AtStorage&) = delete;
  AtStorage& operator=(const AtStorage&) = delete;
};

}  // namespace syncopate
