#include "train/simulation.h"

#include <algorithm>
#include <utility>

#include "comm/modelled_sums.h"
#include "run/signals.h"
#include "train/run_trace.h"
#include "train/worker_step.h"

namespace syncopate {
namespace {

// Messages that take a simulation some two and thirty seconds to send.
constexpr int64_t kMostOfRate = int64_t{1} << 19, kMostOfRun = int64_t{1} << 23;

// Takes this worker's steps up to a boundary.
void take_steps(WorkerStep& step, SimulatedWork& account) {
  for (;;) {
    const StepPlan plan = step.next(static_cast<int>(requested_stop()));
    if (plan.stop) break;
    if (plan.is_idle) {
      step.follow(plan);
      continue;
    }
    const StepCost cost = step.take(plan);
    ++account.steps;
    account.compute_s += cost.compute_s;
    account.update_s += cost.update_s;
    account.sync.add(cost.sync);
  }
  step.end();
  account.sync.add(step.scheme().take_times());
}

SimulatedWork simulate_worker(Engine& engine,
                              Endpoint& endpoint,
                              Fidelity fidelity,
                              int64_t free_bytes) {
  WorkerStep step(engine, endpoint, nullptr, "");
  step.scheme().enter();
  SimulatedWork account;
  if (WorkerTrace* trace = endpoint.trace()) trace->start_at(0, 0);
  const int64_t all = engine.plan.stop_at * endpoint.size();
  WorkerStep::Progress here;
  while (here.stop == 0 && here.worker_steps < all) {
    const int64_t from = here.worker_steps;
    const int64_t until =
        fidelity == Fidelity::kRate ? all : engine.next_boundary(from);
    step.meet_at(here.earliest);
    step.begin({from, until, here.earliest});
    // The last worker to come here sees what all have allocated.
    if (from == 0)
      account.state_bytes =
          (free_bytes - engine.device->free_bytes()) / endpoint.size() +
          step.scheme().server_bytes();
    take_steps(step, account);
    account.ended_at = endpoint.now();
    here = step.agree_on_progress(static_cast<int>(requested_stop()));
  }
  const SyncOptions& sync = engine.options.sync;
  // asp.record writes a file, which a simulation does not.
  if (fidelity != Fidelity::kRate && !sync.asp.record &&
      here.worker_steps >= engine.plan.total_steps * endpoint.size()) {
    step.finish(RunEnd::kLastStep);
    account.sync.add(step.scheme().take_times());
    account.ended_at = endpoint.now();
  }
  const ModelledSums& sums = *endpoint.modelled_sums();
  if (sums.knows(sync.collective) &&
      any_scheme(sync, [](const auto& info) { return info.reduces_ranges; }))
    account.sums_error = sums.error();
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
  update_s += other.update_s;
  sync.add(other.sync);
  ended_at = std::max(ended_at, other.ended_at);
  bytes += other.bytes;
  messages += other.messages;
  samples += other.samples;
  state_bytes = std::max(state_bytes, other.state_bytes);
  sums_error = std::max(sums_error, other.sums_error);
}

void check_simulation(const Engine& engine) {
  const Options& options = engine.options;
  const ParsedInput& input = engine.input;
  const SyncSwitchOptions& phases = options.sync.sync_switch;
  if (scheme_info(options.sync.scheme).is_composite &&
      phases.plateau != Plateau::kNone)
    input.refuse(fmt::format(
        "sync_switch.plateau: {}: evaluations, which a simulation does not "
        "make, decide when to switch, expected none",
        phases.plateau));
  if (options.faults.kind != FaultKind::kNone)
    input.refuse("faults.kind: has no meaning for a simulation, expected none");
}

bool follows_rings(const Engine& engine) {
  const SyncOptions& sync = engine.options.sync;
  return scheme_info(sync.scheme).reduces_ranges &&
         sync.collective == CollectiveAlgorithm::kRing &&
         !has_alike_links(engine.workers, network_cost_of(engine));
}

std::vector<SimulatedWork> simulate(Engine& engine,
                                    Fidelity fidelity,
                                    RunTrace* trace) {
  using enum NetworkCost::Sums;
  NetworkCost cost = network_cost_of(engine);
  const int64_t free_bytes = engine.device->free_bytes();
  const auto run = [&](NetworkCost::Sums sums) {
    cost.sums = sums;
    engine.steps_begun.assign(engine.workers, 0);
    engine.shared_stop = {};
    const auto world = make_inproc_world(engine.workers, cost);
    std::vector<SimulatedWork> work(engine.workers);
    world->run([&](Endpoint& plain) {
      Endpoint& endpoint = trace != nullptr ? trace->attach(plain) : plain;
      work[endpoint.rank()] =
          simulate_worker(engine, endpoint, fidelity, free_bytes);
      if (trace != nullptr) trace->finish(plain);
    });
    return work;
  };
  // A sum is modelled by itself. Its members may still be receiving messages of
  // another group's sum, rows of tables, or what the phase before a handover
  // sent.
  const bool may_meet = any_scheme(engine.options.sync, [](const auto& info) {
    return info.sums_in_groups || info.is_composite;
  });
  // Policies time messages, between which a sum is no more than its end.
  const SyncOptions& sync = engine.options.sync;
  const bool times_messages = scheme_info(sync.scheme).is_composite &&
                              sync.sync_switch.policy != SwitchPolicy::kFixed;
  const bool are_few = engine.workers <= ModelledSums::kExactWorld;
  const bool are_blocks = sync.collective == CollectiveAlgorithm::kBinaryBlocks;
  const bool are_computed =
      fidelity != Fidelity::kExact && cost.ties_seed == 0 &&
      !engine.sends_rows() && !times_messages && !(may_meet && are_few) &&
      !(fidelity == Fidelity::kRun && are_blocks && are_few);
  if (!are_computed) return run(kSent);
  const auto computed = fidelity == Fidelity::kRate ? kRough : kComputed;
  if (!may_meet) return run(computed);
  // How many messages there are is known once the sums have been computed.
  RunTrace* const wanted = std::exchange(trace, nullptr);
  std::vector<SimulatedWork> work = run(computed);
  int64_t messages = 0;
  for (const SimulatedWork& mine : work) messages += mine.messages;
  const bool is_sent =
      messages <= (fidelity == Fidelity::kRate ? kMostOfRate : kMostOfRun);
  trace = wanted;
  if (is_sent) return run(kSent);
  return wanted ? run(computed) : work;
}

}  // namespace syncopate
