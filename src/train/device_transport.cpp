#include "train/device_transport.h"

#include <algorithm>
#include <functional>
#include <map>

#include "comm/tags.h"

namespace syncopate {
namespace {

// run.device = auto may have been resolved differently on another node.
void refuse_unlike_devices(const Engine& engine, Endpoint& endpoint) {
  std::vector<double> gpus = {engine.device->kind() == DeviceKind::kCuda ? 1.0
                                                                         : 0.0};
  agree(endpoint, endpoint.world_group(), gpus, Combine::kCount,
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

std::string nccl_obstacle(const Device& device,
                          const std::string& host,
                          Endpoint& endpoint) {
  const bool has_gpu = device.kind() == DeviceKind::kCuda;
  const std::string missing = has_gpu ? nccl_missing() : "";
  // Equal for ranks that share a GPU, and exact in a double.
  const size_t place =
      std::hash<std::string>()(host + '\n' + device.identity()) >> 11;
  const std::vector<double> mine = {static_cast<double>(place),
                                    has_gpu ? 0.0 : 1.0,
                                    missing.empty() ? 0.0 : 1.0};
  std::map<double, int> ranks_of_gpu;
  int most = 0, without_gpu = 0, without_nccl = 0;
  for (const std::vector<double>& rank :
       all_gather(endpoint, endpoint.world_group(), mine, tags::kCollective,
                  Traffic::kControl)) {
    most = std::max(most, ++ranks_of_gpu[rank[0]]);
    without_gpu += rank[1] > 0;
    without_nccl += rank[2] > 0;
  }
  if (without_gpu > 0)
    return fmt::format("{} of {} ranks have no GPU", without_gpu,
                       endpoint.size());
  if (most > 1) return fmt::format("{} ranks share a GPU", most);
  if (without_nccl == 0) return "";
  return missing.empty() ? fmt::format("{} ranks have no NCCL", without_nccl)
                         : missing;
}

// For a rank that reads data or writes a checkpoint within its own limit.
double longest_wait_s(const RunOptions& run) {
  constexpr double kMargin_s = 60;
  return std::max(
             {NcclOptions().limit_s, run.io_timeout_s, run.step_timeout_s}) +
         kMargin_s;
}

DeviceTransport choose_transport(const Engine& engine,
                                 const std::string& host,
                                 Endpoint& endpoint) {
  const Transport asked = engine.options.sync.transport;
  if (endpoint.size() == 1 || endpoint.has_virtual_time()) return {};
  refuse_unlike_devices(engine, endpoint);
  if (engine.device->kind() == DeviceKind::kCpu) return {};
  const std::string by_mpi = endpoint.takes_device_memory()
                                 ? "GPU-aware MPI"
                                 : "MPI through page-locked memory";
  const std::string& scheme = engine.options.sync.scheme;
  if (asked == Transport::kMpi || !scheme_info(scheme).uses_collectives)
    return {nullptr, by_mpi};
  const std::string obstacle = nccl_obstacle(*engine.device, host, endpoint);
  if (asked == Transport::kNccl && !obstacle.empty())
    throw AgreedError(Error(
        ExitCode::kBadInput,
        fmt::format("sync.transport: nccl: {}; use mpi or auto", obstacle)));
  if (!obstacle.empty()) return {nullptr, by_mpi + ": " + obstacle};
  DeviceTransport transport;
  transport.collectives =
      make_nccl(*engine.device, endpoint.rank(), endpoint.size(),
                shared_unique_id(endpoint),
                {.limit_s = longest_wait_s(engine.options.run)});
  transport.text = transport.collectives->library();
  return transport;
}

}  // namespace syncopate
