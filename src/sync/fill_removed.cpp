#include "sync/fill_removed.h"

#include <algorithm>

#include "comm/tags.h"
#include "ops/combine.h"
#include "optim/moving_average.h"
#include "sync/over_workers.h"

namespace syncopate {
namespace {

// Replaces a removed worker's `values` by the mean of those of the others.
void take_mean(Context& context,
               Endpoint& endpoint,
               std::span<float> values,
               const std::vector<int64_t>& removed,
               Traffic kind) {
  if (values.empty()) return;
  const bool is_removed = removed[endpoint.rank()] != 0;
  const auto others = std::ranges::count(removed, 0);
  DeviceVector<float> mean(context.device(), context.stream(),
                           std::ssize(values));
  if (!is_removed) combine(context, mean, {{1, values}});
  OnHost host(mean);
  all_reduce_sum(endpoint, endpoint.world_group(), host.values(),
                 CollectiveAlgorithm::kRing, Wire::kF32, tags::kControl, kind);
  if (!is_removed) return;
  host.put_back();
  combine(context, values, {{1 / static_cast<float>(others), mean}});
}

}  // namespace

void fill_removed(Context& context,
                  Endpoint& endpoint,
                  Replica& replica,
                  const std::vector<int64_t>& removed,
                  bool own_statistics,
                  Traffic kind) {
  const auto first = std::ranges::find(removed, 0);
  const int root = static_cast<int>(first - removed.begin());
  const auto copy = [&](std::span<float> values) {
    copy_from_worker(context, endpoint, values, root, tags::kControl, kind);
  };
  for (const std::span<float> state : replica.optimizer->state()) copy(state);
  copy(replica.parameters.write());
  if (own_statistics)
    take_mean(context, endpoint, replica.buffers, removed, kind);
  else
    copy(replica.buffers);
  if (replica.average != nullptr) {
    take_mean(context, endpoint, replica.average->parameters(), removed, kind);
    take_mean(context, endpoint, replica.average->buffers(), removed, kind);
  }
  int64_t steps = replica.optimizer->steps();
  broadcast(endpoint, endpoint.world_group(), bytes_span(std::span(&steps, 1)),
            root, tags::kControl, kind);
  replica.optimizer->set_steps(steps);
}

}  // namespace syncopate
