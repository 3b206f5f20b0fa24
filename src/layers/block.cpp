#include "layers/block.h"

namespace syncopate {

std::vector<ConvShape> convolutions(const BlockShape& shape) {
  if (shape.kind == BlockShape::Kind::kBasic)
    return {{shape.outer, 3, shape.stride}, {shape.outer, 3}};
  const bool at_first = shape.is_first_strided;
  return {{shape.inner, 1, at_first ? shape.stride : 1, shape.has_biases},
          {shape.inner, 3, at_first ? 1 : shape.stride},
          {shape.outer, 1, 1, shape.has_biases}};
}

}  // namespace syncopate
