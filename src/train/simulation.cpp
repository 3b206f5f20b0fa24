#include "train/simulation.h"

#include <algorithm>

#include "comm/modelled_sums.h"
#include "sync/bucket.h"
#include "train/network_cost.h"
#include "train/worker_step.h"

namespace syncopate {
namespace {

SimulatedWork simulate_worker(Engine& engine, Endpoint& endpoint) {
  const int64_t free_bytes = engine.device->free_bytes();
  WorkerStep step(engine, endpoint, nullptr, "");
  step.scheme().enter();
  step.meet_at(0);
  step.begin({0, engine.plan.stop_at * endpoint.size(), 0});
  SimulatedWork account;
  if (endpoint.rank() == 0)
    account.state_bytes = free_bytes - engine.device->free_bytes();
  const SyncOptions& sync = engine.options.sync;
  account.has_computed_sums =
      endpoint.modelled_sums()->knows(sync.collective) &&
      std::ranges::any_of(schemes_in_use(sync), [](const auto& keyword) {
        return scheme_info(keyword).reduces_ranges;
      });
  for (;;) {
    const StepPlan plan = step.scheme().next(step.word(0));
    if (plan.stop) break;
    if (plan.is_idle) {
      step.follow(plan);
      continue;
    }
    const StepCost cost = step.take(plan);
    ++account.steps;
    account.compute_s += cost.compute_s;
    account.sync.add(cost.sync);
  }
  step.end();
  account.sync.add(step.scheme().take_times());
  account.ended_at = endpoint.now();
  const TrafficCounters& sent = endpoint.traffic();
  // Workers have batches and numbers of steps of their own.
  account.samples =
      static_cast<double>(account.steps * engine.options.data.accumulate *
                          engine.options.data.batch_of(endpoint.rank()));
  account.bytes = sent.bytes_sent[static_cast<int>(Traffic::kPayload)];
  account.messages = sent.messages_sent[static_cast<int>(Traffic::kPayload)];
  return account;
}

}  // namespace

void SimulatedWork::add(const SimulatedWork& other) {
  steps += other.steps;
  compute_s += other.compute_s;
  sync.add(other.sync);
  ended_at = std::max(ended_at, other.ended_at);
  bytes += other.bytes;
  messages += other.messages;
  samples += other.samples;
  state_bytes = std::max(state_bytes, other.state_bytes);
  has_computed_sums |= other.has_computed_sums;
}

void check_simulation(const Engine& engine) {
  const Options& options = engine.options;
  const auto refuse = [&](const std::string& what) {
    const auto given = engine.input.given.find(what.substr(0, what.find(':')));
    fail(ExitCode::kBadInput, "{}: {}",
         given == engine.input.given.end() ? "simulate" : given->second, what);
  };
  if (options.faults.kind != FaultKind::kNone)
    refuse("faults.kind: has no meaning for a simulation, expected none");
  const bool has_tables = std::ranges::any_of(
      engine.model->parameters().entries(),
      [](const auto& entry) { return entry.role == Role::kEmbedding; });
  if (has_tables && tables_of(options.sync, nullptr) == Tables::kWhole)
    refuse(
        "sync.tables: rows: how many rows a batch touches depends on the data, "
        "which a simulation does not read, expected dense");
}

std::vector<SimulatedWork> simulate(Engine& engine) {
  const auto world = make_inproc_world(engine.workers, network_cost_of(engine));
  std::vector<SimulatedWork> work(engine.workers);
  world->run([&](Endpoint& endpoint) {
    work[endpoint.rank()] = simulate_worker(engine, endpoint);
  });
  return work;
}

}  // namespace syncopate
