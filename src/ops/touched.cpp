#include "ops/touched.h"

#include "ops/bodies.h"

namespace syncopate {

void clear_touched(Context& context,
                   std::span<float> values,
                   const TouchedBlocks& touched) {
  CHECK(touched.marks != nullptr && touched.begin == values.data());
  bodies_of(context).clear_touched(context, values, touched);
}

}  // namespace syncopate
