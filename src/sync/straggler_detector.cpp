#include "sync/straggler_detector.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace syncopate {

StragglerDetector::StragglerDetector(int workers,
                                     const SyncSwitchOptions& options)
    : window_(options.window),
      consecutive_(options.consecutive),
      threshold_(options.threshold),
      min_slowdown_(options.min_slowdown),
      throughput_(workers),
      window_s_(workers),
      steps_(workers),
      slow_(workers),
      fast_(workers),
      is_straggler_(workers) {
  CHECK(window_ >= 1 && consecutive_ >= 1);
}

void StragglerDetector::restart(Known stragglers) {
  for (auto* seconds : {&throughput_, &window_s_})
    std::fill(seconds->begin(), seconds->end(), 0.0);
  for (auto* counts : {&steps_, &slow_, &fast_})
    std::fill(counts->begin(), counts->end(), 0);
  if (stragglers == Known::kForgotten)
    std::fill(is_straggler_.begin(), is_straggler_.end(), 0);
}

void StragglerDetector::forget(int worker) {
  throughput_[worker] = window_s_[worker] = 0;
  steps_[worker] = slow_[worker] = fast_[worker] = 0;
  is_straggler_[worker] = 0;
}

void StragglerDetector::observe(int worker, double step_s) {
  window_s_[worker] += step_s;
  if (++steps_[worker] < window_) return;
  throughput_[worker] = static_cast<double>(window_) / window_s_[worker];
  window_s_[worker] = 0;
  steps_[worker] = 0;
}

bool StragglerDetector::is_slow(int worker) const {
  double sum = 0, squares = 0, count = 0;
  for (const double theirs : throughput_) {
    if (theirs == 0) continue;
    sum += theirs;
    ++count;
  }
  const double mean = sum / count;
  for (const double theirs : throughput_)
    if (theirs != 0) squares += (theirs - mean) * (theirs - mean);
  // Treat equal speeds as equal despite rounding.
  constexpr double kRounding = 1e-9;
  const double mine = throughput_[worker] + kRounding * mean;
  return mine < mean - threshold_ * std::sqrt(squares / count) &&
         mine < (1 - min_slowdown_) * mean;
}

void StragglerDetector::assess(int worker) {
  const bool has_new_window = steps_[worker] == 0 && throughput_[worker] > 0;
  if (!has_new_window) return;
  const bool slow = is_slow(worker);
  slow_[worker] = slow ? slow_[worker] + 1 : 0;
  fast_[worker] = slow ? 0 : fast_[worker] + 1;
  if (slow_[worker] >= consecutive_) is_straggler_[worker] = 1;
  if (fast_[worker] >= consecutive_) is_straggler_[worker] = 0;
}

bool StragglerDetector::any() const {
  return std::find(is_straggler_.begin(), is_straggler_.end(), 1) !=
         is_straggler_.end();
}

void StragglerDetector::visit_state(StateVisitor& visitor) {
  visitor.visit(Owner::kWorker, "stragglers/throughput",
                std::span(throughput_));
  visitor.visit(Owner::kWorker, "stragglers/window_s", std::span(window_s_));
  visitor.visit(Owner::kWorker, "stragglers/window_steps", std::span(steps_));
  visitor.visit(Owner::kWorker, "stragglers/slow", std::span(slow_));
  visitor.visit(Owner::kWorker, "stragglers/fast", std::span(fast_));
  visitor.visit(Owner::kWorker, "stragglers/known", std::span(is_straggler_));
}

}  // namespace syncopate
