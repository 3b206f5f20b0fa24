// What this process is at, for those who watch over it: written by the threads
// that work, read at any moment by the one that watches. Nobody waits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace syncopate {

enum class Stage : uint8_t {
  kStart,       // up to the first step: input, data, first values
  kStep,        // training steps and what is exchanged within them
  kCollective,  // of a step: its update, which waits for the others
  kBoundary,    // between steps, where all meet
  kEvaluation,
  kCheckpoint,
  kEnd,
};
const char* name_of(Stage stage);  // "start", "step", ...

// Seconds for which this process was seen to run, in ticks of the watchdog
// (a tenth of a second; 0 without one): time in which the whole process was
// stopped, or its machine asleep, does not pass. Reading it costs a load.
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
    double since_s = 0;   // the stage was entered; of watch_clock()
    double worked_s = 0;  // the worker itself last got on
    double moved_s = 0;   // it did, or a message came or left
  };

  // The worker has come to a stage: this is progress.
  void enter(Stage stage, int64_t step);
  // The worker got on within its stage: a batch evaluated, a file read.
  void progress();
  // Around a wait for other ranks, which is no time of the worker's own.
  void wait_begins() { is_waiting_.store(true, std::memory_order_relaxed); }
  void wait_ends();
  // Around what may wait for storage within a step: it has the time of I/O,
  // which begins anew with it and after it. Use AtStorage.
  void storage_begins();
  void storage_ends();
  // A message came or left, a task beside the worker ended.
  void message_moved();

  Now now() const;
  // The median of the last steps, or 0 while there were fewer than five.
  double median_step_s() const;

 private:
  static constexpr size_t kSteps = 15;

  std::atomic<Stage> stage_ = Stage::kStart;
  std::atomic<int64_t> step_ = 0;
  std::atomic<bool> is_waiting_ = false, is_at_storage_ = false;
  std::atomic<double> since_s_ = 0, worked_s_ = 0, moved_s_ = 0;
  std::atomic<double> step_began_s_ = -1;  // no step under way: negative
  std::atomic<uint64_t> num_steps_ = 0;
  std::array<std::atomic<double>, kSteps> steps_s_ = {};
};

Activity& activity();  // of this process

// Around what may wait for storage within a step.
class AtStorage {
 public:
  AtStorage() { activity().storage_begins(); }
  ~AtStorage() { activity().storage_ends(); }
  AtStorage(const AtStorage&) = delete;
  AtStorage& operator=(const AtStorage&) = delete;
};

}  // namespace syncopate
