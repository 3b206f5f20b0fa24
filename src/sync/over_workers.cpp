#include "sync/over_workers.h"

#include "comm/collectives.h"
#include "comm/tags.h"
#include "device/device_vector.h"
#include "ops/elementwise.h"

namespace syncopate {

void mean_over_workers(Context& context,
                       Endpoint& endpoint,
                       std::span<float> values) {
  if (endpoint.size() == 1 || values.empty()) return;
  OnHost host(context.device(), context.stream(), values);
  all_reduce_sum(endpoint, endpoint.world_group(), host.values(),
                 CollectiveAlgorithm::kRing, Wire::kF32, tags::kEvaluation,
                 Traffic::kEvaluation);
  host.put_back();
  scale(context, values, 1.0f / static_cast<float>(endpoint.size()));
}

void copy_from_worker(Context& context,
                      Endpoint& endpoint,
                      std::span<float> values,
                      int root,
                      int tag,
                      Traffic traffic) {
  OnHost host(context.device(), context.stream(), values);
  broadcast(endpoint, endpoint.world_group(), bytes_span(host.values()), root,
            tag, traffic);
  host.put_back();
}

}  // namespace syncopate
