#include "sync/planned_bytes.h"

#include <algorithm>

namespace syncopate {

TrafficPlan::TrafficPlan(const SchemeRequest& of, int64_t buffer_elems)
    : request(of),
      buffers(buffer_elems),
      D(of.parameters.num_elems()),
      N(of.workers),
      wire(of.sync.wire) {}

double TrafficPlan::all_reduce(int group, int64_t elems, Wire format) const {
  if (request.sync.collective == CollectiveAlgorithm::kParameterServer &&
      request.has_servers_apart && group > 1)
    return 2 * static_cast<double>(wire_bytes(format, elems));
  int64_t sum = 0;
  for (int position = 0; position < group; ++position)
    sum += all_reduce_bytes(request.sync.collective, group, position, elems,
                            format);
  return static_cast<double>(sum) / group;
}

int64_t TrafficPlan::with_buffers(Statistics batchnorm) const {
  return D + (batchnorm == Statistics::kAveraged ? buffers : 0);
}

double TrafficPlan::message() const {
  return static_cast<double>(
      message_bytes(request.sync.compress, request.parameters));
}

double TrafficPlan::neighbours() const {
  const Topology topology = make_topology(request.sync.topology, N);
  double sum = 0;
  for (int rank = 0; rank < N; ++rank) sum += topology.scaling(rank) - 1;
  return sum / N;
}

bool TrafficPlan::has_tables() const {
  return std::ranges::count(request.parameters.entries(), Role::kEmbedding,
                            &ParameterEntry::role) > 0;
}

std::optional<double> planned_bytes(const SchemeRequest& request,
                                    int64_t buffer_elems) {
  const SchemeInfo& info = scheme_info(request.sync.scheme);
  const bool has_shards = info.has_servers && info.planned_bytes != nullptr;
  if (request.workers == 1 && !(has_shards && request.has_servers_apart))
    return 0;
  if (info.planned_bytes == nullptr) return std::nullopt;
  return info.planned_bytes(TrafficPlan(request, buffer_elems));
}

}  // namespace syncopate
