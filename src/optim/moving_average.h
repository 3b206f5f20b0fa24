// The exponential moving average of a model's values over the steps (Polyak
// averaging), which is often evaluated in place of the model itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "device/device_vector.h"
#include "ops/context.h"

namespace syncopate {

class MovingAverage {
 public:
  // Averages `parameters` and `buffers` values, zero until start() or a loaded
  // state. `decay` is in [0, 1), `warmup_steps` that of the schedule. The
  // context must outlive it.
  MovingAverage(Context& context,
                int64_t parameters,
                int64_t buffers,
                double decay,
                int64_t every,
                double warmup_steps);

  // Sets the average to a model's values.
  void start(std::span<const float> parameters, std::span<const float> buffers);
  // Call after each step with the number of steps so far, by this worker's
  // count and by the schedule's, in which the warm-up is. At every `every`-th
  // of its own: average = decay * average + (1 - decay) * value; at the first,
  // in the warm-up, and at the first after it, average = value, as in
  // torchvision's references/classification/train.py.
  void update(int64_t steps_done,
              int64_t schedule_steps,
              std::span<const float> parameters,
              std::span<const float> buffers);

  const DeviceVector<float>& parameters() const { return parameters_; }
  const DeviceVector<float>& buffers() const { return buffers_; }
  DeviceVector<float>& parameters() { return parameters_; }
  DeviceVector<float>& buffers() { return buffers_; }
  // The number of updates so far, to be stored. Unknown (-1) until start() or a
  // stored value, which checkpoints of earlier programs do not have.
  int64_t& updates() { return updates_; }

 private:
  static constexpr int64_t kUnknown = -1;
  void copy(std::span<const float> parameters, std::span<const float> buffers);

  Context& context_;
  DeviceVector<float> parameters_, buffers_;
  double decay_;
  int64_t every_;
  double warmup_steps_;
  int64_t updates_ = kUnknown;
};

}  // namespace syncopate
