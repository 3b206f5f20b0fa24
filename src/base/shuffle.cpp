#include "base/shuffle.h"

#include <algorithm>
#include <array>
#include <utility>

namespace syncopate {
namespace {

// In a large order nearly every place is a miss in the caches, and swaps one
// after another would wait for each. So places are drawn, and their memory
// asked for, some swaps ahead; the draws are the same.
template <typename Value>
void shuffle_values(std::span<Value> values, Rng rng) {
  std::array<size_t, 64> places;
  for (size_t left = values.size(); left > 1;) {
    const size_t count = std::min(places.size(), left - 1);
    for (size_t i = 0; i < count; ++i) {
      places[i] = rng.below(left - i);
      __builtin_prefetch(&values[places[i]], 1);
    }
    for (size_t i = 0; i < count; ++i)
      std::swap(values[left - 1 - i], values[places[i]]);
    left -= count;
  }
}

}  // namespace

void shuffle(std::span<int32_t> values, Rng rng) {
  shuffle_values(values, rng);
}

void shuffle(std::span<int64_t> values, Rng rng) {
  shuffle_values(values, rng);
}

}  // namespace syncopate
