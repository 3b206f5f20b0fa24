// How fast a run is and how long it still takes, for its lines of progress.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "train/engine.h"

namespace syncopate {

class SpeedLog {
 public:
  struct Speed {
    double samples_per_s = 0;
    double left_s = 0;  // until run.stop_at or the last step
  };

  explicit SpeedLog(const Engine& engine) : engine_(engine) {}
  // Times are those of the training clock, steps those of a Position.
  void resume(int64_t step, double time_s);
  // Returns the speed of a row, in which all workers took `samples`.
  Speed end_row(int64_t step, double time_s, double samples);
  // Returns samples per second since the last row or, where nothing is known
  // yet, of that row; 0: unknown.
  double since_row(int64_t worker_steps, double now_s) const;
  // Whether a row or first() has told a speed.
  bool is_known() const { return is_known_; }
  // Called before each step of rank 0. Returns the speed once: when no row has
  // ended `kPatience_s` after the start. The first step, in which kernels are
  // prepared, does not count.
  std::optional<Speed> first(int64_t worker_steps,
                             double now_s,
                             double since_start_s);

 private:
  static constexpr double kPatience_s = 2;

  void set_row_end(int64_t step, double time_s);
  double left_s(int64_t step, double step_s) const;

  const Engine& engine_;
  int64_t row_step_ = 0;  // the last row's end
  double row_time_s_ = 0;
  double row_rate_ = 0;  // samples per second
  bool is_rest_of_row_ = false;
  // For first().
  std::optional<int64_t> began_at_, first_step_ended_at_;  // worker_steps
  double first_step_time_s_ = 0;
  bool is_known_ = false;
};

}  // namespace syncopate
