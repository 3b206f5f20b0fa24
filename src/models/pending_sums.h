// The metrics of a batch that may still be on their way from the device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "ops/loss.h"

namespace syncopate {

// Named sums over samples, mergeable by addition; the last word on how a mean
// is formed is mean = value / samples.
struct MetricSums {
  std::vector<double> values;  // one for each of Model::metrics()
  double samples = 0;
  void add(const MetricSums& other);
};

class PendingSums {
 public:
  // Where one batch's sums arrive: page-locked memory and the event after
  // which they are there.
  struct Arrival {
    HostBuffer memory;  // a ClassificationSums
    std::unique_ptr<Event> event;
  };
  PendingSums() = default;
  // `values`: how many metrics a model has: loss, top-1[, top-5].
  PendingSums(std::shared_ptr<Arrival> arrival, int values)
      : arrival_(std::move(arrival)), values_(values) {}
  MetricSums get() const;  // waits for them
  // Where the device has come to the end of forward.
  const Event& arrived() const { return *arrival_->event; }

 private:
  std::shared_ptr<Arrival> arrival_;
  int values_ = 0;
};

// Arrivals, made when all others are still looked at.
class Readback {
 public:
  // Copies *sums, device memory, behind what `stream` has; nothing waits.
  PendingSums start(Device& device,
                    Stream& stream,
                    const ClassificationSums* sums,
                    int values);

 private:
  std::vector<std::shared_ptr<PendingSums::Arrival>> arrivals_;
};

}  // namespace syncopate
