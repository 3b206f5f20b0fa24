// Follows the ops that run through a context: what `bench layers` times.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "ops/bodies.h"

namespace syncopate {

struct OpCall {
  const char* op;  // "conv_forward"
  // For a convolution "128x16x32x32 -> 32, 3x3 /2", for a matrix product
  // "128x64 -> 10", otherwise the dimensions of the largest operand.
  std::string shape;
  // The size of all operands, each counted once. The actual traffic is larger
  // if the op reads an operand twice, or both assigns and accumulates.
  int64_t bytes = 0;
  // Multiplications and additions of convolutions, products of matrices and
  // attention; 0: the op is bound by memory.
  double flop = 0;
};

class OpListener {
 public:
  virtual ~OpListener() = default;
  // Around each op of the context, on the thread that calls it.
  virtual void op_begins(const OpCall& call) = 0;
  // `engine`: the library's own name of what computed it; empty: our own code.
  virtual void op_ends(std::string_view engine) = 0;
};

// Bodies that tell the context's listener and leave the work to
// device_bodies().
const OpBodies& followed_bodies();
const OpBodies& device_bodies(const Context& context);

}  // namespace syncopate
