// Whether numbers are what they should be: NaN and infinity, replicas that
// differ, and the faults of [faults] that make such numbers.
#include <bit>
#include <cmath>
#include <limits>

#include "app/audit.h"
#include "app/trainer.h"
#include "ops/reduce.h"

namespace syncopate {

// --- a step ------------------------------------------------------------------

// The tensor that faults strike: in the middle, and not of zeros.
const ParameterEntry& Trainer::struck() const {
  const auto& entries = engine_.model->parameters().entries();
  for (size_t i = entries.size() / 2; i < entries.size(); ++i)
    if (entries[i].role == Role::kWeight) return entries[i];
  return entries[0];
}

// A NaN where a fault is asked for comes before anything looks at the gradient.
void Trainer::check_gradient(int64_t offset, int64_t elems) {
  const int64_t place = struck().offset;
  if (place >= offset && place < offset + elems &&
      faults_.spoils("nan", scheme_->steps_done())) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    engine_.device->copy(replica_.gradients.data() + place, &nan, sizeof nan,
                         *engine_.stream);
  }
  guard_.check(offset, elems);
}

// Of the mantissa: what a fault of memory does to one parameter.
void Trainer::flip_bit() {
  OnHost parameter(*engine_.device, *engine_.stream,
                   replica_.parameters.span().subspan(
                       static_cast<size_t>(struck().offset), 1));
  float& value = parameter.values()[0];
  value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^ 1u << 20);
  parameter.put_back();
}

void Trainer::bucket_ready(const Bucket& bucket) {
  if (!checks_whole_gradient_) {
    check_gradient(bucket.offset, bucket.elems);
    if (bucket.is_last) guard_.finish();
  }
  scheme_->gradient_ready(bucket);
}

// Looks at the sums of the step whose batches are pending.
void Trainer::settle_loss() {
  if (pending_.empty()) return;
  MetricSums sums{std::vector<double>(engine_.model->metrics().size(), 0.0), 0};
  for (const PendingSums& batch : pending_) sums.add(batch.get());
  pending_.clear();
  const bool is_finite = std::isfinite(sums.values[0]);
  if (!is_finite)
    not_finite({.rank = endpoint_.rank(),
                .step = pending_step_,
                .what = Divergence::kLoss});
  if (is_finite || !skips_nonfinite_) recorder_->metrics(sums);
}

// Findings come in the order of steps; a step's loss before its gradient, or
// at the same time.
void Trainer::settle(Settle which) {
  while (const auto finding = guard_.settle(which == Settle::kAll))
    not_finite({.rank = endpoint_.rank(),
                .step = finding->step,
                .what = Divergence::kGradient,
                .tensor = engine_.model->parameters().find(finding->offset)});
  settle_loss();
}

// A step that is left out counts once.
void Trainer::not_finite(const Divergence& divergence) {
  if (!skips_nonfinite_) {
    diverged_ = first_of(diverged_, divergence);
  } else if (divergence.step > skipped_at_) {
    skipped_at_ = divergence.step;
    recorder_->skipped_step();
  }
}

// --- between steps -----------------------------------------------------------

void Trainer::check_parameters() {
  const int64_t bad =
      first_nonfinite(*engine_.context, replica_.parameters.span());
  if (bad < 0) return;
  if (!diverged_)
    diverged_ = {.rank = endpoint_.rank(),
                 .step = scheme_->steps_done(),
                 .what = Divergence::kParameters};
  diverged_->parameter = engine_.model->parameters().find(bad);
}

void Trainer::audit(const Position& at) {
  std::string difference;
  recorder_->uncounted([&] {
    difference = audit_replicas(
        *engine_.context, endpoint_,
        [this](StateVisitor& visitor) { scheme_->visit_state(visitor); });
  });
  if (difference.empty()) return;
  recorder_->finish(at, "replicas differ", "none");
  if (results_) results_->commit();
  throw AgreedError(Error(
      ExitCode::kInternal,
      fmt::format("replicas, which {} keeps equal, are not after step {}: {} "
                  "(a fault of memory or network; results kept, this state is "
                  "not saved: run again to go on from the last checkpoint)",
                  engine_.options.sync.scheme, at.step, difference)));
}

Ending Trainer::end_diverged(const Position& at, const Divergence& divergence) {
  recorder_->finish(at, "diverged");
  if (results_) {
    results_->commit();
    std::fprintf(stderr,
                 "error: diverged: %s (results kept, this state is not "
                 "saved)\n",
                 divergence.text(engine_.model->parameters()).c_str());
  }
  return Ending::kDiverged;
}

}  // namespace syncopate
