#include "ops/bodies.h"

namespace syncopate {

const OpBodies& cpu_bodies() {
  static constexpr OpBodies kBodies = {
#define OP(name) .name = cpu::name,
#include "ops/all_ops.inc"
  };
  return kBodies;
}

}  // namespace syncopate
