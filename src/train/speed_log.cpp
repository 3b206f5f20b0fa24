#include "train/speed_log.h"

#include <algorithm>
#include <utility>

namespace syncopate {

void SpeedLog::resume(int64_t step, double time_s) {
  set_row_end(step, time_s);
  is_rest_of_row_ = true;
}

void SpeedLog::set_row_end(int64_t step, double time_s) {
  row_step_ = step;
  row_time_s_ = time_s;
}

SpeedLog::Speed SpeedLog::end_row(int64_t step, double time_s, double samples) {
  const double seconds = time_s - row_time_s_;
  const auto steps =
      static_cast<double>(std::max<int64_t>(1, step - row_step_));
  // The row may have begun before the run was stopped.
  if (std::exchange(is_rest_of_row_, false))
    samples =
        std::min(samples, steps * static_cast<double>(engine_.samples_a_step));
  set_row_end(step, time_s);
  row_rate_ = seconds > 0 ? samples / seconds : 0;
  is_known_ = true;
  return {row_rate_, left_s(step, seconds / steps)};
}

double SpeedLog::since_row(int64_t worker_steps, double now_s) const {
  const double seconds = now_s - row_time_s_;
  const double steps = static_cast<double>(worker_steps) / engine_.workers -
                       static_cast<double>(row_step_);
  return steps >= 1 && seconds > 0
             ? steps * static_cast<double>(engine_.samples_a_step) / seconds
             : row_rate_;
}

std::optional<SpeedLog::Speed> SpeedLog::first(int64_t worker_steps,
                                               double now_s,
                                               double since_start_s) {
  if (is_known_) return std::nullopt;
  const int64_t N = engine_.workers;
  if (!began_at_) began_at_ = worker_steps;
  if (!first_step_ended_at_) {
    if (worker_steps < *began_at_ + N) return std::nullopt;
    first_step_ended_at_ = worker_steps;
    first_step_time_s_ = now_s;
    return std::nullopt;
  }
  if (worker_steps < *first_step_ended_at_ + N || since_start_s < kPatience_s)
    return std::nullopt;
  is_known_ = true;
  const double step_s =
      (now_s - first_step_time_s_) * static_cast<double>(N) /
      static_cast<double>(worker_steps - *first_step_ended_at_);
  return Speed{static_cast<double>(engine_.samples_a_step) / step_s,
               left_s(worker_steps / N, step_s)};
}

double SpeedLog::left_s(int64_t step, double step_s) const {
  return static_cast<double>(engine_.plan.stop_at - step) * step_s;
}

}  // namespace syncopate
