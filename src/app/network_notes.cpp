#include "app/network_notes.h"

#include "base/text.h"

namespace syncopate {

void print_assumptions(Log& log, const Engine& engine) {
  const auto note = [&](const char* key, const char* meaning) {
    if (!engine.input.given.contains(key))
      log.line("note       {} is not given: {}", key, meaning);
  };
  if (!engine.input.given.contains("compute.trace"))
    note("compute.step_s", "forward and backward passes take 1 s");
  const NetworkOptions& network = engine.options.network;
  const bool has_servers = network.servers == ServerPlace::kApart &&
                           uses_servers(engine.options.sync);
  NetworkCost cost = network_cost_of(engine);
  if (!has_servers) cost.server_bytes_per_s = 0;
  note("network.mbit_s", cost.takes_time()
                             ? "the bandwidth of workers' links is unlimited"
                             : "messages take no time on the links");
  if (network.group > 1)
    note("network.group_mbit_s",
         "the bandwidth of links within groups is unlimited");
  if (has_servers)
    note("network.server_mbit_s",
         "the bandwidth of the servers' links is unlimited");
}

void note_unused_links(Log& log, const Engine& engine) {
  const int64_t group = engine.options.network.group;
  const auto note = [&](std::initializer_list<const char*> keys,
                        const std::string& reason) {
    for (const char* key : keys)
      if (engine.input.given.contains(key))
        log.line("unused    {}: {}", key, reason);
  };
  const SyncOptions& sync = engine.options.sync;
  if (!uses_servers(sync))
    note({"network.servers", "network.server_mbit_s"},
         fmt::format("{} has no server here", sync.scheme));
  if (group == 1)
    note({"network.group_mbit_s", "network.group_latency_us"},
         "groups of one worker exchange no messages inside");
  if (group >= engine.workers)
    note({"network.mbit_s", "network.latency_us", "network.uplink_mbit_s"},
         fmt::format("all {} are in one group, which no message leaves",
                     counted(engine.workers, "worker")));
}

}  // namespace syncopate
