#include "ops/shared_sum.h"

#include "ops/bodies.h"

namespace syncopate {

void shared_sum(Context& context,
                std::span<const std::span<float>> ranges,
                SumOrder order,
                DType sent) {
  CHECK_MSG(ranges.size() >= 2 && ranges.size() <= kMostSharedRanges,
            "{} ranges", ranges.size());
  CHECK(sent == DType::kF32 || sent == DType::kBf16);
  for (const std::span<float> range : ranges)
    CHECK(range.size() == ranges[0].size());
  bodies_of(context).shared_sum(context, ranges, order, sent);
}

}  // namespace syncopate
