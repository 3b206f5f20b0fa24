// The term by which weight decay adds to the loss, as TensorFlow's training
// summaries of Sync-Switch's runs have it (their weight_decay.csv):
//
//   1/2 optimizer.weight_decay sum of x^2 over the parameters x that decay
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>

#include "optim/decay_runs.h"

namespace syncopate {

// A value that may still be on its way from the device.
class DecayTerm {
 public:
  // The term over the model's whole range in the context's memory, after all
  // work submitted to the context's stream so far. Does not wait.
  DecayTerm(Context& context,
            const OptimizerOptions& options,
            const ParameterTable& table,
            std::span<const float> parameters);
  double get() const;  // waits for it

 private:
  double weight_decay_;
  DeviceVector<float> factors_;
  HostBuffer arrived_;
  std::unique_ptr<Event> event_;
};

}  // namespace syncopate
