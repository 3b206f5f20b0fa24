#include "config/episodes.h"
#include "train/engine.h"

namespace syncopate {

NetworkCost network_cost_of(const Engine& engine) {
  const Options& options = engine.options;
  const NetworkOptions& network = options.network;
  const auto bytes_per_s = [&](double mbit_s) {
    return mbit_s * 1e6 / 8 * network.efficiency;
  };
  NetworkCost cost;
  for (int rank = 0; rank < engine.workers; ++rank)
    cost.by_worker.push_back({of_worker(network.latency_us, rank, 0) * 1e-6,
                              bytes_per_s(of_worker(network.mbit_s, rank, 0))});
  cost.message_s = network.message_us * 1e-6;
  cost.island = static_cast<int>(network.group);
  cost.inside = {network.group_latency_us * 1e-6,
                 bytes_per_s(network.group_mbit_s)};
  cost.uplink_bytes_per_s = bytes_per_s(network.uplink_mbit_s);
  cost.has_servers_apart = network.servers == ServerPlace::kApart;
  cost.server_bytes_per_s = bytes_per_s(network.server_mbit_s);
  // NCCL sends from device memory.
  if (options.sync.transport != Transport::kNccl)
    cost.device_bytes_per_s = bytes_per_s(network.device_mbit_s);
  cost.ties_seed = static_cast<uint64_t>(network.ties_seed);
  const Episodes episodes(options.stragglers.episodes, engine.workers,
                          static_cast<uint64_t>(options.run.seed));
  if (episodes.has(Episode::Kind::kLink))
    cost.link = [episodes, &steps = engine.steps_begun](int rank, Time now) {
      const Episodes::Effect effect =
          episodes.at(Episode::Kind::kLink, rank, now, steps[rank]);
      return NetworkCost::Link{effect.added_s, effect.times};
    };
  return cost;
}

}  // namespace syncopate
