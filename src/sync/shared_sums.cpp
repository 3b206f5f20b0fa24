#include "sync/shared_sums.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "ops/shared_sum.h"

namespace syncopate {
namespace {

// Returns the order of comm/ring.h, of comm/parameter_server.h and of the
// native collective in one process.
std::optional<SumOrder> order_of(CollectiveAlgorithm algorithm) {
  switch (algorithm) {
    case CollectiveAlgorithm::kRing:
      return SumOrder::kRing;
    case CollectiveAlgorithm::kParameterServer:
    case CollectiveAlgorithm::kNative:
      return SumOrder::kServer;
    default:
      return std::nullopt;
  }
}

}  // namespace

bool SharedSums::forms(CollectiveAlgorithm algorithm, int group_size) {
  return group_size <= kMostSharedRanges && order_of(algorithm).has_value();
}

void SharedSums::enter(Context& context,
                       const Group& group,
                       Tag tag,
                       std::span<float> values,
                       CollectiveAlgorithm algorithm,
                       Wire wire) {
  CHECK(forms(algorithm, group.size()));
  if (group.size() == 1 || values.empty()) return;
  std::vector<std::span<float>>& brought = open_[{group.members, tag}];
  brought.resize(static_cast<size_t>(group.size()));
  CHECK(brought[group.position].empty());
  brought[group.position] = values;
  if (std::ranges::any_of(brought, &std::span<float>::empty)) return;
  shared_sum(context, brought, *order_of(algorithm),
             wire == Wire::kBf16 ? DType::kBf16 : DType::kF32);
  open_.erase({group.members, tag});
}

}  // namespace syncopate
