// One line from an op's contract to the body of the device at hand.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "ops/context.h"

namespace syncopate {

// Runs the CPU body with the context and the arguments. A context of another
// device is our own mistake: this build has no other bodies.
template <typename CpuBody, typename... Args>
decltype(auto) on_device(CpuBody* cpu_body, Context& context, Args&&... args) {
  CHECK_MSG(context.device().kind() == DeviceKind::kCpu,
            "no CUDA body in this build");
  return cpu_body(context, std::forward<Args>(args)...);
}

}  // namespace syncopate
