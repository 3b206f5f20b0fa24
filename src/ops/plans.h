// Which of several plans a GPU's library uses for one product or convolution:
// the choice is the library's own, one measured before, or measured now.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/context.h"

namespace syncopate {

struct PlanRequest {
  // Everything that a plan depends on besides GPU and library: "conv_forward
  // bf16 n128 c64 ...", one line without tabs.
  std::string problem;
  // Names of the plans that the context's determinism allows, all different,
  // the library's expected fastest first; at least one.
  std::vector<std::string> plans;
  // Runs one of them on the operands at hand.
  std::function<void(size_t)> run;
};

class PlanChooser {
 public:
  virtual ~PlanChooser() = default;
  // Returns an index of request.plans. Called once for each problem of a
  // context, never while work is recorded.
  virtual size_t choose(Context& context, const PlanRequest& request) = 0;
};

}  // namespace syncopate
