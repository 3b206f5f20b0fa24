#include <algorithm>

#include "ops/bodies.h"
#include "ops/cpu/parallel.h"

namespace syncopate::cpu {

void copy_weights(Context& context,
                  std::span<const float> x,
                  const ShadowSlice& copies) {
  const int64_t end = copies.first + std::ssize(x);
  parallel_for(context, copies.num_entries, std::ssize(x), [&](int64_t index) {
    const ShadowEntry& entry = copies.entries[index];
    const int64_t last = std::min(end, entry.end);
    for (int64_t i = std::max(copies.first, entry.begin); i < last; ++i) {
      const int64_t n = i - entry.begin;
      const int64_t k = n / (entry.C * entry.window);
      const int64_t c = n / entry.window % entry.C, rs = n % entry.window;
      const int64_t place = (k * entry.window + rs) * entry.padded_C + c;
      copies.values[entry.at + place] = to_bf16(x[i - copies.first]);
    }
  });
}

}  // namespace syncopate::cpu
