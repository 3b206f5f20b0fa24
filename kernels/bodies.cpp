#include "ops/bodies.h"

namespace syncopate {

const OpBodies* cuda_bodies() {
  static constexpr OpBodies kBodies = {
#define OP(name) .name = cuda::name,
#include "ops/all_ops.inc"
  };
  return &kBodies;
}

}  // namespace syncopate
