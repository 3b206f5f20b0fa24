#include "train/compute_trace.h"

#include "base/clock.h"

namespace syncopate {

void ComputeTrace::step_begins() {
  if (!trace_.is_on()) return;
  if (!trace_.has_reference()) {
    engine_.stream->synchronize();
    std::shared_ptr<Event> now = engine_.mark();
    now->synchronize();
    trace_.refer_to(std::move(now), monotonic_s());
  }
  steps_.push_back({trace_.step(), engine_.mark(), nullptr, {}});
}

void ComputeTrace::batch_arrives() {
  if (is_on()) steps_.back().parts.push_back({engine_.mark(), nullptr, {}});
}

void ComputeTrace::backward_ends(const PendingSums& sums) {
  if (!is_on()) return;
  steps_.back().parts.back().has_gradients = engine_.mark();
  steps_.back().parts.back().sums = sums;
}

void ComputeTrace::step_ends() {
  if (!is_on()) return;
  steps_.back().end = engine_.mark();
  const size_t unread = engine_.device->kind() == DeviceKind::kCpu ? 0 : 1;
  while (steps_.size() > unread) {
    record(steps_.front());
    steps_.erase(steps_.begin());
  }
}

void ComputeTrace::finish() {
  for (const Marks& marks : steps_)
    if (marks.end != nullptr) record(marks);
  steps_.clear();
}

// Everything after the backward pass that is no wait is the optimizer's.
void ComputeTrace::record(const Marks& marks) {
  const auto at = [&](const Event& event) { return trace_.time_of(event); };
  const auto add = [&](const char* what, Time begin, Time end) {
    if (end > begin) trace_.compute(what, marks.step, begin, end);
  };
  marks.end->synchronize();
  Time before = at(*marks.begin);
  for (const Part& part : marks.parts) {
    const Time has_batch = at(*part.has_batch),
               has_loss = at(part.sums.arrived()),
               has_gradients = at(*part.has_gradients);
    add("data", before, has_batch);
    add("forward", has_batch, has_loss);
    add("backward", has_loss, has_gradients);
    before = has_gradients;
  }
  for (const auto& [begin, end] : trace_.between_waits(before, at(*marks.end)))
    add("optimizer", begin, end);
  trace_.refer_to(marks.end, at(*marks.end));  // before the clocks drift apart
}

}  // namespace syncopate
