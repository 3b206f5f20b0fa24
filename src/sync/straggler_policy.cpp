#include "sync/straggler_policy.h"

#include <algorithm>

#include "tensor/visit_numbers.h"

namespace syncopate {

StragglerPolicy::StragglerPolicy(int workers, const SyncSwitchOptions& options)
    : workers_(workers), kind_(options.policy), detector_(workers, options) {}

void StragglerPolicy::judge_and_flag(std::span<const double> step_seconds,
                                     const Ranks& active) {
  const bool is_decided = wants_change();
  if (is_decided && kind_ == SwitchPolicy::kGreedy) return;
  judge(step_seconds);
  if (!is_decided) flag(active);
}

void StragglerPolicy::judge(std::span<const double> step_seconds) {
  for (int rank = 0; rank < workers_; ++rank)
    if (step_seconds[rank] > 0) detector_.observe(rank, step_seconds[rank]);
  for (int rank = 0; rank < workers_; ++rank)
    if (step_seconds[rank] > 0) detector_.assess(rank);
}

void StragglerPolicy::judge(int rank, double step_s) {
  if (step_s <= 0) return;
  detector_.observe(rank, step_s);
  detector_.assess(rank);
}

void StragglerPolicy::flag(const Ranks& active) {
  std::vector<int> found;
  for (const int rank : active)
    if (detector_.is_straggler(rank)) found.push_back(rank);
  if (kind_ == SwitchPolicy::kElastic) {
    std::ranges::stable_sort(
        found, {}, [this](int rank) { return detector_.throughput(rank); });
    // Checkpoints of version 1 may have fewer than half left.
    const int may_leave =
        std::max(0, static_cast<int>(active.size()) - (workers_ + 1) / 2);
    found.resize(std::min(found.size(), static_cast<size_t>(may_leave)));
  }
  flagged_.assign(workers_, 0);
  for (const int rank : found) flagged_[rank] = 1;
  wants_change_ = found.empty() ? 0 : 1;
}

std::vector<double> StragglerPolicy::flags() const {
  std::vector<double> flags(flagged_.begin(), flagged_.end());
  flags.resize(workers_);
  return flags;
}

void StragglerPolicy::adopt_change(std::span<const double> flags,
                                   bool are_found) {
  wants_change_ = 1;
  flagged_.assign(workers_, 0);
  for (int rank = 0; rank < workers_; ++rank)
    if (flags[rank] > 0) flagged_[rank] = 1;
  if (are_found) detections_ += std::count(flagged_.begin(), flagged_.end(), 1);
}

void StragglerPolicy::clear_decision() {
  wants_change_ = 0;
  flagged_.clear();
}

void StragglerPolicy::forget_flagged() {
  for (size_t rank = 0; rank < flagged_.size(); ++rank)
    if (flagged_[rank] != 0) detector_.forget(static_cast<int>(rank));
}

void StragglerPolicy::visit_state(StateVisitor& visitor) {
  visit_by_worker(visitor, Owner::kShared, "sync_switch/flagged", flagged_,
                  workers_);
  visit_number(visitor, Owner::kShared, "sync_switch/wants_change",
               wants_change_);
  visit_number(visitor, Owner::kShared, "sync_switch/detections", detections_);
  detector_.visit_state(visitor);
}

}  // namespace syncopate
