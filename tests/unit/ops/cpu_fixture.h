// What tests of ops run on: a context of the CPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "ops/context.h"

namespace syncopate::test {

struct Cpu {
  std::unique_ptr<Device> device = make_cpu_device();
  std::unique_ptr<Stream> stream = device->make_stream();
  Context context;
  explicit Cpu(int threads = 2) : context(*device, *stream, threads) {}
};

}  // namespace syncopate::test
