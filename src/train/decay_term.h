// The term by which weight decay adds to the loss, as TensorFlow's training
// summaries of Sync-Switch's runs have it (spec 2.4, weight_decay.csv):
//
//   1/2 optimizer.weight_decay sum of x^2 over the parameters x that decay
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "optim/decay_runs.h"

namespace syncopate {

class DecayTerm {
 public:
  DecayTerm(Context& context,
            const OptimizerOptions& options,
            const ParameterTable& table);

  // A value that may still be on its way from the device.
  class Pending {
   public:
    double get() const;  // waits for it

   private:
    friend class DecayTerm;
    double weight_decay_ = 0;
    DeviceVector<float> factors_;
    HostBuffer arrived_;
    std::unique_ptr<Event> event_;
  };
  // Of the model's whole range in the context's memory, as the work given to
  // the context's stream so far leaves it; nothing waits.
  std::unique_ptr<Pending> start(std::span<const float> parameters);

 private:
  Context& context_;
  double weight_decay_;
  std::vector<DecayRun> runs_;  // those that decay
};

}  // namespace syncopate
