// The metrics of a batch, which may still be in transfer from the device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "ops/loss.h"

namespace syncopate {

// Named sums over samples, merged by addition; mean = value / samples.
struct MetricSums {
  std::vector<double> values;  // one for each of Model::metrics()
  double samples = 0;
  void add(const MetricSums& other);
};

class PendingSums {
 public:
  // Destination of one batch's sums: page-locked memory, and the event after
  // which they are there.
  struct Arrival {
    HostBuffer memory;  // a ClassificationSums
    std::unique_ptr<Event> event;
  };
  PendingSums() = default;
  // `values` is a model's number of metrics: loss, top-1[, top-5].
  PendingSums(std::shared_ptr<Arrival> arrival, int values)
      : arrival_(std::move(arrival)), values_(values) {}
  MetricSums get() const;  // blocks until they are there
  // Recorded at the end of forward on the device.
  const Event& arrived() const { return *arrival_->event; }

 private:
  std::shared_ptr<Arrival> arrival_;
  int values_ = 0;
};

// A pool of arrivals; creates one if all others are still in use. Those in use
// may outlive it.
class Readback {
 public:
  // Copies *sums (device memory) in the order of `stream`; does not wait.
  PendingSums start(Device& device,
                    Stream& stream,
                    const ClassificationSums* sums,
                    int values);

 private:
  using Unused = std::vector<std::unique_ptr<PendingSums::Arrival>>;
  std::shared_ptr<Unused> unused_ = std::make_shared<Unused>();
};

}  // namespace syncopate
