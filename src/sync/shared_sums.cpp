#include "sync/shared_sums.h"

#include <algorithm>

#include "base/check.h"
#include "comm/ring.h"
#include "ops/elementwise.h"

namespace syncopate {
namespace {

using Values = std::span<float>;

// values = values as receivers of a message see them
void round_values(Context& context, Buffer& rounded, Values values) {
  const int64_t elems = std::ssize(values);
  if (rounded.bytes() < elems * bytes_of(DType::kBf16))
    rounded = Buffer(context.device(), elems * bytes_of(DType::kBf16));
  const Tensor message =
      make_tensor(rounded.data(), DType::kBf16, Shape{elems});
  const Tensor here = make_tensor(values.data(), DType::kF32, Shape{elems});
  reorder(context, message, here);
  reorder(context, here, message);
}

}  // namespace

// Chunk c is summed in the order c+1, c+2, ..., c, in place of the first of
// these, and rounded wherever the ring would send it.
void SharedSums::enter(Context& context,
                       const Group& group,
                       Tag tag,
                       std::span<float> values,
                       Wire wire) {
  const int n = group.size();
  if (n == 1 || values.empty()) return;
  std::vector<Values>& brought = open_[{group.members, tag}];
  brought.resize(static_cast<size_t>(n));
  CHECK(brought[group.position].empty());
  brought[group.position] = values;
  if (std::ranges::any_of(brought, &Values::empty)) return;
  const std::vector<Values> members = std::move(brought);
  open_.erase({group.members, tag});
  const RingLayout layout(n, std::ssize(values));
  for (int c = 0; c < n; ++c) {
    const auto [first, elems] = layout.chunk(c);
    if (elems == 0) continue;
    const auto of = [&, first = first, elems = elems](int position) {
      return members[position % n].subspan(first, elems);
    };
    const Values sum = of(c + 1);
    const auto send = [&] {
      if (wire == Wire::kBf16) round_values(context, rounded_, sum);
    };
    for (int k = 2; k <= n; ++k) {
      send();
      axpy(context, sum, 1, of(c + k));
    }
    send();
    for (int k = 2; k <= n; ++k)
      context.device().copy(of(c + k).data(), sum.data(), sum.size_bytes(),
                            context.stream());
  }
}

}  // namespace syncopate
