#include "ops/nonfinite.h"

#include "ops/bodies.h"

namespace syncopate {

void withhold_nonfinite(Context& context,
                        std::span<float> values,
                        int64_t* found,
                        int64_t offset,
                        const TouchedBlocks& touched) {
  CHECK(offset >= 0);
  bodies_of(context).withhold_nonfinite(context, values, found, offset,
                                        touched);
}

void restore_withheld(Context& context,
                      std::span<float> values,
                      std::span<const float> saved,
                      const int64_t* found) {
  CHECK(values.size() == saved.size());
  bodies_of(context).restore_withheld(context, values, saved, found);
}

}  // namespace syncopate
