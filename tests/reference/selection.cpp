#include "reference/selection.h"

#include <algorithm>
#include <numeric>

namespace syncopate::reference {

std::vector<uint32_t> select(const std::vector<uint64_t>& keys,
                             const std::vector<int64_t>& begins,
                             const std::vector<int64_t>& kept) {
  std::vector<uint32_t> all;
  for (size_t tensor = 0; tensor < kept.size(); ++tensor) {
    std::vector<uint32_t> order(
        static_cast<size_t>(begins[tensor + 1] - begins[tensor]));
    std::iota(order.begin(), order.end(),
              static_cast<uint32_t>(begins[tensor]));
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return keys[a] > keys[b]; });
    order.resize(static_cast<size_t>(kept[tensor]));
    std::sort(order.begin(), order.end());
    all.insert(all.end(), order.begin(), order.end());
  }
  return all;
}

}  // namespace syncopate::reference
