// The bodies of all ops on each kind of device. A body has its op's name and
// type; the op's header has the contract, and the op checks shapes first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#define OP(name)                                               \
  namespace syncopate::cpu {                                   \
  decltype(syncopate::name) name;                              \
  }                                                            \
  namespace syncopate::cuda { /* image activations are NHWC */ \
  decltype(syncopate::name) name;                              \
  }
#include "ops/all_ops.inc"

namespace syncopate {

struct OpBodies {
#define OP(name) decltype(syncopate::name)* name;
#include "ops/all_ops.inc"
};

const OpBodies& cpu_bodies();
const OpBodies& none_bodies();
// Returns null in a build without CUDA.
const OpBodies* cuda_bodies();

// Returns the bodies for the context's device, through its listener if it has
// one.
const OpBodies& bodies_of(const Context& context);

}  // namespace syncopate
