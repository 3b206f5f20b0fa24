#include "ops/shared_sum.h"

#include "base/bf16.h"
#include "ops/bodies.h"
#include "ops/cpu/parallel.h"

namespace syncopate::cpu {

void shared_sum(Context& context,
                std::span<const std::span<float>> ranges,
                SumOrder order,
                DType sent) {
  const auto N = std::ssize(ranges), elems = std::ssize(ranges[0]);
  const auto as_sent = [sent](float value) {
    return sent == DType::kBf16 ? from_bf16(bf16_of(value)) : value;
  };
  const auto sum_of = [&](int64_t first, size_t i) {
    float sum = ranges[first % N][i];
    for (int64_t k = 1; k < N; ++k) {
      const float term = ranges[(first + k) % N][i];
      sum =
          order == SumOrder::kRing ? as_sent(sum) + term : sum + as_sent(term);
    }
    return as_sent(sum);
  };
  const int64_t chunks = order == SumOrder::kRing ? N : 1;
  const int64_t least = elems / chunks, longer = elems % chunks;
  parallel_for(context, chunks, elems * N, [&](int64_t chunk) {
    const int64_t begin = chunk * least + std::min(chunk, longer);
    const int64_t end = begin + least + (chunk < longer);
    for (int64_t i = begin; i < end; ++i) {
      const float sum = sum_of(order == SumOrder::kRing ? chunk + 1 : 0, i);
      for (const std::span<float> range : ranges) range[i] = sum;
    }
  });
}

}  // namespace syncopate::cpu
