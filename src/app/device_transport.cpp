#include "app/device_transport.h"

#include <algorithm>
#include <functional>
#include <map>

#include "comm/tags.h"

namespace syncopate {
namespace {

// What every rank says of itself, in numbers that a double holds exactly.
struct Place {
  double gpu;         // of host and device: equal for ranks that share one
  double lacks_nccl;  // 1 or 0
};

Place my_place(const Engine& engine,
               const std::string& host,
               const std::string& asked) {
  const size_t both =
      std::hash<std::string>()(host + '\n' + engine.device->identity());
  const bool has_nccl = asked != "mpi" && nccl_missing().empty();
  return {static_cast<double>(both >> 11), has_nccl ? 0.0 : 1.0};
}

// run.device = auto may have meant something else on another node.
void refuse_unlike_devices(const Engine& engine, Endpoint& endpoint) {
  std::vector<double> gpus = {engine.device->kind() == DeviceKind::kCuda ? 1.0
                                                                         : 0.0};
  agree(endpoint, endpoint.world_group(), gpus, Combine::kSum,
        tags::kCollective);
  const auto count = static_cast<int>(gpus[0]);
  if (count != 0 && count != endpoint.size())
    throw AgreedError(Error(
        ExitCode::kBadInput,
        fmt::format("run.device: {} of {} ranks have a GPU: say cpu, or start "
                    "ranks where there are GPUs",
                    count, endpoint.size())));
}

std::vector<std::byte> shared_unique_id(Endpoint& endpoint) {
  std::vector<double> size(1);
  std::vector<std::byte> id;
  if (endpoint.rank() == 0) {
    id = nccl_unique_id();
    size[0] = static_cast<double>(id.size());
  }
  agree(endpoint, endpoint.world_group(), size, Combine::kMax,
        tags::kCollective);
  id.resize(static_cast<size_t>(size[0]));
  broadcast(endpoint, endpoint.world_group(), bytes_span(std::span(id)), 0,
            tags::kCollective, Traffic::kControl);
  return id;
}

}  // namespace

DeviceTransport choose_transport(const Engine& engine,
                                 const std::string& host,
                                 Endpoint& endpoint) {
  const std::string& asked = engine.options.sync.transport;
  if (endpoint.size() == 1) return {};
  refuse_unlike_devices(engine, endpoint);
  if (engine.device->kind() == DeviceKind::kCpu) return {};
  const Place mine = my_place(engine, host, asked);
  const std::vector<double> values = {mine.gpu, mine.lacks_nccl};
  std::map<double, int> ranks_of_gpu;
  int lacking = 0;
  for (const std::vector<double>& place :
       all_gather(endpoint, endpoint.world_group(), values, tags::kCollective,
                  Traffic::kControl)) {
    ++ranks_of_gpu[place[0]];
    lacking += place[1] > 0;
  }
  int most = 0;
  for (const auto& [gpu, ranks] : ranks_of_gpu) most = std::max(most, ranks);
  std::string obstacle;
  if (most > 1)
    obstacle = fmt::format("{} ranks share a GPU", most);
  else if (lacking > 0)
    obstacle = mine.lacks_nccl > 0
                   ? nccl_missing()
                   : fmt::format("{} ranks have no NCCL", lacking);
  if (asked == "nccl" && !obstacle.empty())
    throw AgreedError(Error(
        ExitCode::kBadInput,
        fmt::format("sync.transport: nccl: {}; use mpi or auto", obstacle)));
  if (asked == "mpi" || !obstacle.empty())
    return {nullptr, fmt::format("MPI through page-locked memory{}{}",
                                 obstacle.empty() ? "" : ": ", obstacle)};
  DeviceTransport transport;
  transport.collectives =
      make_nccl(*engine.device, endpoint.rank(), endpoint.size(),
                shared_unique_id(endpoint));
  transport.text = transport.collectives->library();
  return transport;
}

}  // namespace syncopate
