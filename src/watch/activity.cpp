#include "watch/activity.h"

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "base/median.h"

namespace syncopate {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
// The first steps make plans and recordings, so a median needs at least these.
constexpr uint64_t kFewestSteps = 5;

}  // namespace

WatchClock& watch_clock() {
  static WatchClock the_one;
  return the_one;
}

void Activity::enter(Stage stage, int64_t step) {
  if (stage != Stage::kCollective) {
    const double now_s = monotonic_s();
    const double began_s = step_began_s_.load(kRelaxed);
    if (began_s >= 0) {
      const uint64_t n = num_steps_.load(kRelaxed);
      steps_s_[n % kSteps].store(now_s - began_s, kRelaxed);
      num_steps_.store(n + 1, kRelaxed);
    }
    step_began_s_.store(stage == Stage::kStep ? now_s : -1, kRelaxed);
  }
  stage_.store(stage, kRelaxed);
  step_.store(step, kRelaxed);
  since_s_.store(watch_clock().now_s(), kRelaxed);
  progress();
}

void Activity::progress() {
  const double now_s = watch_clock().now_s();
  worked_s_.store(now_s, kRelaxed);
  moved_s_.store(now_s, kRelaxed);
}

// In this order, so that no reader takes the end of a long wait for idleness.
void Activity::wait_ends() {
  worked_s_.store(watch_clock().now_s(), kRelaxed);
  is_waiting_.store(false, std::memory_order_release);
}

void Activity::storage_begins() {
  worked_s_.store(watch_clock().now_s(), kRelaxed);
  is_at_storage_.store(true, kRelaxed);
}

void Activity::storage_ends() {
  worked_s_.store(watch_clock().now_s(), kRelaxed);
  is_at_storage_.store(false, kRelaxed);
}

void Activity::message_moved() {
  moved_s_.store(watch_clock().now_s(), kRelaxed);
}

Activity::Now Activity::now() const {
  return {stage_,   step_,     is_waiting_, is_at_storage_,
          since_s_, worked_s_, moved_s_};
}

double Activity::median_step_s() const {
  const uint64_t n = num_steps_;
  if (n < kFewestSteps) return 0;
  std::vector<double> steps;
  for (size_t i = 0; i < std::min<uint64_t>(n, kSteps); ++i)
    steps.push_back(steps_s_[i]);
  return median(std::move(steps));
}

Activity& activity() {
  static Activity the_one;
  return the_one;
}

}  // namespace syncopate
