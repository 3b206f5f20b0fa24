// Checks of a step's numbers for NaN and infinity, and the faults of [faults]
// that produce such numbers.
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "ops/reduce.h"
#include "train/worker_step.h"

namespace syncopate {

// The tensor that faults strike: near the middle, and not all zero.
const ParameterEntry& WorkerStep::struck() const {
  const auto& entries = engine_.model->parameters().entries();
  for (size_t i = entries.size() / 2; i < entries.size(); ++i)
    if (entries[i].role == Role::kWeight) return entries[i];
  return entries[0];
}

// Flips a bit of the mantissa of one parameter, as a memory fault might.
void WorkerStep::flip_bit() {
  OnHost parameter(*engine_.device, *engine_.stream,
                   replica_.parameters.write().span().subspan(
                       static_cast<size_t>(struck().offset), 1));
  float& value = parameter.values()[0];
  value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^ 1u << 20);
  parameter.put_back();
}

// A NaN requested by [faults] is written before the gradient is checked.
void WorkerStep::check_gradient(int64_t offset, int64_t elems) {
  const int64_t place = struck().offset;
  if (place >= offset && place < offset + elems &&
      faults_.spoils(FaultKind::kNan, scheme_->steps_done())) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    engine_.device->copy(replica_.gradients.data() + place, &nan, sizeof nan,
                         *engine_.stream);
  }
  guard_.check(offset, elems);
}

// Findings arrive in the order of steps, and a step's loss not later than its
// gradient.
void WorkerStep::read(Numbers which) {
  while (const auto finding = guard_.next_finding(which == Numbers::kAll))
    not_finite({.rank = endpoint_.rank(),
                .step = finding->step,
                .what = Divergence::kGradient,
                .tensor = engine_.model->parameters().find(finding->offset)});
  read_losses();
}

void WorkerStep::read_losses() {
  if (pending_.empty()) return;
  MetricSums sums{std::vector<double>(engine_.model->metrics().size(), 0.0), 0};
  for (const PendingSums& batch : pending_) sums.add(batch.get());
  pending_.clear();
  const bool is_finite = std::isfinite(sums.values[0]);
  if (!is_finite)
    not_finite({.rank = endpoint_.rank(),
                .step = pending_step_,
                .what = Divergence::kLoss});
  if (is_finite || !skips_nonfinite_) found_.sums.add(sums);
}

// A skipped step counts once.
void WorkerStep::not_finite(const Divergence& divergence) {
  if (!skips_nonfinite_) {
    diverged_ = first_of(diverged_, divergence);
  } else if (divergence.step > skipped_at_) {
    skipped_at_ = divergence.step;
    ++found_.skipped_steps;
  }
}

WorkerStep::Found WorkerStep::take_found() {
  return std::exchange(found_, Found());
}

void WorkerStep::check_parameters() {
  const int64_t bad =
      first_nonfinite(*engine_.context, replica_.parameters.span());
  if (bad < 0) return;
  if (!diverged_)
    diverged_ = {.rank = endpoint_.rank(),
                 .step = scheme_->steps_done(),
                 .what = Divergence::kParameters};
  diverged_->parameter = engine_.model->parameters().find(bad);
}

}  // namespace syncopate
