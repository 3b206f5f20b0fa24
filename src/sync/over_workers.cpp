#include "sync/over_workers.h"

#include "comm/collectives.h"
#include "comm/tags.h"
#include "device/device_vector.h"
#include "ops/combine.h"
#include "ops/elementwise.h"

namespace syncopate {

void divide(Context& context, std::span<float> sum, int workers) {
  const double share = 1.0 / workers;
  const auto nearest = static_cast<float>(share);
  const auto rest = static_cast<float>(share - nearest);
  if (rest == 0)
    scale(context, sum, nearest);
  else
    combine(context, sum, {{rest, sum}, {nearest, sum}});
}

void mean_over_workers(Context& context,
                       Endpoint& endpoint,
                       std::span<float> values) {
  if (endpoint.size() == 1 || values.empty()) return;
  OnHost host(context.device(), context.stream(), values);
  all_reduce_sum(endpoint, endpoint.world_group(), host.values(),
                 CollectiveAlgorithm::kRing, Wire::kF32, tags::kEvaluation,
                 Traffic::kEvaluation);
  host.put_back();
  divide(context, values, endpoint.size());
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
