#include "sync/straggler_detector.h"

#include <algorithm>
#include <cmath>

namespace syncopate {

StragglerDetector::StragglerDetector(int workers,
                                     const SyncSwitchOptions& options)
    : workers_(workers),
      window_(options.window),
      consecutive_(options.consecutive),
      threshold_(options.threshold),
      step_s_(workers * options.window),
      observed_(workers),
      slow_(workers),
      fast_(workers),
      is_straggler_(workers) {
  CHECK(window_ >= 1 && consecutive_ >= 1);
}

void StragglerDetector::restart(Known stragglers) {
  std::fill(step_s_.begin(), step_s_.end(), 0.0);
  for (auto* counts : {&observed_, &slow_, &fast_})
    std::fill(counts->begin(), counts->end(), 0);
  if (stragglers == Known::kForgotten)
    std::fill(is_straggler_.begin(), is_straggler_.end(), 0);
}

void StragglerDetector::observe(int worker, double step_s) {
  step_s_[worker * window_ + observed_[worker]++ % window_] = step_s;
}

double StragglerDetector::throughput(int worker) const {
  if (observed_[worker] < window_) return 0;
  double seconds = 0;
  for (int64_t i = 0; i < window_; ++i)
    seconds += step_s_[worker * window_ + i];
  return static_cast<double>(window_) / seconds;
}

bool StragglerDetector::is_slow(int worker) const {
  const double mine = throughput(worker);
  double sum = 0, squares = 0, count = 0;
  for (int other = 0; other < workers_; ++other) {
    const double theirs = throughput(other);
    if (theirs == 0) continue;
    sum += theirs;
    ++count;
  }
  const double mean = sum / count;
  for (int other = 0; other < workers_; ++other) {
    const double theirs = throughput(other);
    if (theirs != 0) squares += (theirs - mean) * (theirs - mean);
  }
  // Equal speeds are equal: sums round.
  constexpr double kRounding = 1e-9;
  return mine <
         mean - threshold_ * std::sqrt(squares / count) - kRounding * mean;
}

void StragglerDetector::assess(int worker) {
  if (observed_[worker] < window_) return;
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
  visitor.visit(Owner::kWorker, "stragglers/step_s", std::span(step_s_));
  visitor.visit(Owner::kWorker, "stragglers/observed", std::span(observed_));
  visitor.visit(Owner::kWorker, "stragglers/slow", std::span(slow_));
  visitor.visit(Owner::kWorker, "stragglers/fast", std::span(fast_));
  visitor.visit(Owner::kWorker, "stragglers/known", std::span(is_straggler_));
}

}  // namespace syncopate
