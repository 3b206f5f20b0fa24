// The parts of a process's set-up other than its data: device, network, and the
// order of the training samples.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "config/options.h"
#include "data/sampler.h"
#include "models/model.h"
#include "ops/context.h"

namespace syncopate {

struct Setup {
  Options options;
  int threads = 1;  // per worker
  // Threads of the process that may prepare batches concurrently: as many as
  // there are cores that compute no layers.
  int feed_threads = 1;
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Context> context;
  Split split;
  std::unique_ptr<Sampler> sampler;  // null if there is no training set
  std::unique_ptr<Model> model;
};

}  // namespace syncopate
