#include "layers/block.h"

namespace syncopate {

std::vector<ConvShape> convolutions(const BlockShape& shape) {
  if (shape.kind == BlockShape::Kind::kBasic)
    return {{shape.outer, 3, shape.stride}, {shape.outer, 3}};
  return {{shape.inner, 1}, {shape.inner, 3, shape.stride}, {shape.outer, 1}};
}

}  // namespace syncopate
