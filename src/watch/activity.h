// What this process is at, for those who watch over it: written by the threads
// that work, read at any moment by the one that watches. Nobody waits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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

class Activity {
 public:
  struct Now {
    Stage stage = Stage::kStart;
    int64_t step = 0;    // the worker's own count
    double since_s = 0;  // of monotonic_s()
  };

  // The worker has come to a stage: this is progress.
  void enter(Stage stage, int64_t step);
  Now now() const;

 private:
  std::atomic<Stage> stage_ = Stage::kStart;
  std::atomic<int64_t> step_ = 0;
  std::atomic<double> since_s_ = 0;
};

Activity& activity();  // of this process

}  // namespace syncopate
