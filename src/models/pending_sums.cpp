#include "models/pending_sums.h"

#include "base/check.h"

namespace syncopate {

void MetricSums::add(const MetricSums& other) {
  if (values.empty()) values.assign(other.values.size(), 0);
  CHECK(values.size() == other.values.size());
  for (size_t i = 0; i < values.size(); ++i) values[i] += other.values[i];
  samples += other.samples;
}

MetricSums PendingSums::get() const {
  arrival_->event->synchronize();
  const ClassificationSums& sums = *arrival_->memory.as<ClassificationSums>();
  MetricSums result{{sums.loss_sum, static_cast<double>(sums.correct)},
                    static_cast<double>(sums.samples)};
  if (values_ > 2)
    result.values.push_back(static_cast<double>(sums.correct_top5));
  return result;
}

PendingSums Readback::start(Device& device,
                            Stream& stream,
                            const ClassificationSums* sums,
                            int values) {
  std::unique_ptr<PendingSums::Arrival> next;
  if (unused_->empty()) {
    next = std::make_unique<PendingSums::Arrival>();
    next->memory = HostBuffer(device, sizeof(ClassificationSums));
    next->event = device.make_event();
  } else {
    next = std::move(unused_->back());
    unused_->pop_back();
  }
  std::shared_ptr<PendingSums::Arrival> arrival(
      next.release(), [unused = unused_](PendingSums::Arrival* used) {
        unused->emplace_back(used);
      });
  device.copy(arrival->memory.as<void>(), sums, sizeof *sums, stream);
  arrival->event->record(stream);
  return {std::move(arrival), values};
}

}  // namespace syncopate
