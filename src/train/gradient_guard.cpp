#include "train/gradient_guard.h"

#include "ops/nonfinite.h"

namespace syncopate {

GradientGuard::GradientGuard(Engine& engine, Replica& replica)
    : engine_(engine),
      replica_(replica),
      found_(*engine.device, *engine.stream, 1),
      nothing_(*engine.device, sizeof(int64_t)) {
  *nothing_.as<int64_t>() = -1;
  if (engine.options.run.on_nonfinite == OnNonfinite::kSkip)
    saved_ = {*engine.device, *engine.stream, replica.buffers.size()};
}

void GradientGuard::start(int64_t step) {
  step_ = step;
  engine_.device->copy(found_.data(), nothing_.as<void>(), sizeof(int64_t),
                       *engine_.stream);
  if (!saved_.empty())
    engine_.device->copy(saved_.data(), replica_.buffers.data(),
                         saved_.size() * int64_t{sizeof(float)},
                         *engine_.stream);
}

void GradientGuard::check(int64_t offset, int64_t elems) {
  withhold_nonfinite(
      *engine_.context,
      replica_.gradients.marked().subspan(static_cast<size_t>(offset),
                                          static_cast<size_t>(elems)),
      found_.data(), offset, replica_.gradients.touched());
}

GradientGuard::Arrival GradientGuard::unused_arrival() {
  if (unused_.empty())
    return {0, HostBuffer(*engine_.device, sizeof(int64_t)),
            engine_.device->make_event()};
  Arrival arrival = std::move(unused_.back());
  unused_.pop_back();
  return arrival;
}

void GradientGuard::finish() {
  if (!saved_.empty())
    restore_withheld(*engine_.context, replica_.buffers, saved_, found_.data());
  Arrival arrival = unused_arrival();
  arrival.step = step_;
  engine_.device->copy(arrival.offset.as<void>(), found_.data(),
                       sizeof(int64_t), *engine_.stream);
  arrival.event->record(*engine_.stream);
  arriving_.push_back(std::move(arrival));
}

std::optional<GradientGuard::Finding> GradientGuard::next_finding(bool all) {
  const bool runs_ahead = engine_.device->kind() != DeviceKind::kCpu;
  const size_t left = runs_ahead && !all ? 1 : 0;
  while (arriving_.size() > left) {
    unused_.push_back(std::move(arriving_.front()));
    arriving_.pop_front();
    const Arrival& arrival = unused_.back();
    arrival.event->synchronize();
    const int64_t offset = *arrival.offset.as<int64_t>();
    if (offset >= 0) return Finding{arrival.step, offset};
  }
  return std::nullopt;
}

}  // namespace syncopate
