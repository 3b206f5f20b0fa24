#include "sync/straggler_detector.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "tensor/visit_numbers.h"

namespace syncopate {

StragglerDetector::StragglerDetector(int workers,
                                     const SyncSwitchOptions& options)
    : workers_(workers),
      window_(options.window),
      consecutive_(options.consecutive),
      threshold_(options.threshold),
      min_slowdown_(options.min_slowdown) {
  CHECK(window_ >= 1 && consecutive_ >= 1);
}

void StragglerDetector::make_room() {
  for (auto* seconds : {&throughput_, &window_s_}) seconds->resize(workers_);
  for (auto* counts : {&steps_, &slow_, &fast_, &is_straggler_})
    counts->resize(workers_);
}

void StragglerDetector::restart(Known stragglers) {
  speeds_.reset();
  for (auto* seconds : {&throughput_, &window_s_})
    std::fill(seconds->begin(), seconds->end(), 0.0);
  for (auto* counts : {&steps_, &slow_, &fast_})
    std::fill(counts->begin(), counts->end(), 0);
  if (stragglers == Known::kForgotten)
    std::fill(is_straggler_.begin(), is_straggler_.end(), 0);
}

void StragglerDetector::forget(int worker) {
  if (steps_.empty()) return;
  speeds_.reset();
  throughput_[worker] = window_s_[worker] = 0;
  steps_[worker] = slow_[worker] = fast_[worker] = 0;
  is_straggler_[worker] = 0;
}

void StragglerDetector::observe(int worker, double step_s) {
  make_room();
  window_s_[worker] += step_s;
  if (++steps_[worker] < window_) return;
  throughput_[worker] = static_cast<double>(window_) / window_s_[worker];
  speeds_.reset();
  window_s_[worker] = 0;
  steps_[worker] = 0;
}

StragglerDetector::Speeds StragglerDetector::speeds() {
  if (speeds_) return *speeds_;
  double sum = 0, squares = 0, count = 0;
  for (const double theirs : throughput_) {
    if (theirs == 0) continue;
    sum += theirs;
    ++count;
  }
  const double mean = sum / count;
  for (const double theirs : throughput_)
    if (theirs != 0) squares += (theirs - mean) * (theirs - mean);
  speeds_ = {mean, std::sqrt(squares / count)};
  return *speeds_;
}

bool StragglerDetector::is_slow(int worker) {
  const auto [mean, deviation] = speeds();
  // Treat equal speeds as equal despite rounding.
  constexpr double kRounding = 1e-9;
  const double mine = throughput_[worker] + kRounding * mean;
  return mine < mean - threshold_ * deviation &&
         mine < (1 - min_slowdown_) * mean;
}

void StragglerDetector::assess(int worker) {
  const bool has_new_window =
      !steps_.empty() && steps_[worker] == 0 && throughput_[worker] > 0;
  if (!has_new_window) return;
  const bool slow = is_slow(worker);
  slow_[worker] = slow ? slow_[worker] + 1 : 0;
  fast_[worker] = slow ? 0 : fast_[worker] + 1;
  if (slow_[worker] >= consecutive_) is_straggler_[worker] = 1;
  if (fast_[worker] >= consecutive_) is_straggler_[worker] = 0;
}

bool StragglerDetector::any() const {
  return std::ranges::count(is_straggler_, 1) > 0;
}

void StragglerDetector::visit_state(StateVisitor& visitor) {
  const auto visit = [&](const char* name, auto& values) {
    visit_by_worker(visitor, Owner::kWorker, std::string("stragglers/") + name,
                    values, workers_);
    if (!values.empty()) make_room();
  };
  visit("throughput", throughput_);
  visit("window_s", window_s_);
  visit("window_steps", steps_);
  visit("slow", slow_);
  visit("fast", fast_);
  visit("known", is_straggler_);
  speeds_.reset();
}

}  // namespace syncopate
