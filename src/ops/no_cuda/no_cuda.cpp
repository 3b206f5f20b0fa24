// Stubs for builds without CUDA.
#include "ops/bodies.h"

namespace syncopate {

const OpBodies* cuda_bodies() {
  return nullptr;
}

}  // namespace syncopate
