#include "ops/augment.h"

#include "ops/bodies.h"

namespace syncopate {

void gather_images(Context& context,
                   Tensor images,
                   ConstTensor pixels,
                   ConstTensor scale,
                   ConstTensor shift,
                   const ImageMap* maps) {
  CHECK(images.shape.rank() == 4 && images.dtype == DType::kF32 &&
        images.layout == Layout::kNhwc);
  CHECK(pixels.shape.rank() == 4 && pixels.shape[3] == images.shape[1]);
  CHECK(pixels.dtype == DType::kU8 || pixels.dtype == DType::kF32);
  CHECK(scale.elems() == images.shape[1] && shift.elems() == images.shape[1]);
  bodies_of(context).gather_images(context, images, pixels, scale, shift, maps);
}

}  // namespace syncopate
