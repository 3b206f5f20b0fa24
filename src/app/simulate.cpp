// syncopate simulate INPUT.ini: what a run would take on the cluster that its
// input describes ([compute], [network], [stragglers]). Schemes, messages and
// clocks are those of a run; nothing is computed.
#include <sys/resource.h>

#include <algorithm>

#include "app/commands.h"
#include "app/version.h"
#include "base/clock.h"
#include "base/text.h"
#include "comm/modelled_sums.h"
#include "results/results.h"
#include "sync/bucket.h"
#include "train/engine.h"
#include "train/network_cost.h"
#include "train/worker_step.h"

namespace syncopate {
namespace {

// What one worker has done by the end.
struct Account {
  int64_t steps = 0;
  double compute_s = 0;
  SyncTimes sync;
  Time ended_at = 0;
  int64_t bytes = 0, messages = 0;  // of the scheme
  bool has_computed_sums = false;   // instead of sending their messages
};

// Refuses what needs values.
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

Account simulate_worker(Engine& engine, Endpoint& endpoint) {
  WorkerStep step(engine, endpoint, nullptr, "");
  step.scheme().enter();
  step.meet_at(0);
  step.begin({0, engine.plan.stop_at * endpoint.size(), 0});
  Account account;
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
  account.bytes = sent.bytes_sent[static_cast<int>(Traffic::kPayload)];
  account.messages = sent.messages_sent[static_cast<int>(Traffic::kPayload)];
  return account;
}

int64_t peak_memory_bytes() {
  rusage usage{};
  CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  return int64_t{usage.ru_maxrss} * 1024;
}

Account sum_of(const std::vector<Account>& accounts) {
  Account all;
  for (const Account& mine : accounts) {
    all.steps += mine.steps;
    all.compute_s += mine.compute_s;
    all.sync.add(mine.sync);
    all.ended_at = std::max(all.ended_at, mine.ended_at);
    all.bytes += mine.bytes;
    all.messages += mine.messages;
  }
  return all;
}

// Workers have batches and numbers of steps of their own.
double samples_of(const Engine& engine, const std::vector<Account>& accounts) {
  double samples = 0;
  for (size_t rank = 0; rank < accounts.size(); ++rank)
    samples += static_cast<double>(
        accounts[rank].steps * engine.options.data.accumulate *
        engine.options.data.batch_of(static_cast<int64_t>(rank)));
  return samples;
}

void report(Log& log,
            const Engine& engine,
            const std::vector<Account>& accounts,
            double wall_s) {
  const Account all = sum_of(accounts);
  const auto steps = static_cast<double>(all.steps);
  log.line("steps      {} of {} workers, under {}", all.steps, accounts.size(),
           engine.options.sync.scheme);
  log.line("time       {:.9g} s, when the last worker ends", all.ended_at);
  log.line("throughput {:.6g} samples/s",
           samples_of(engine, accounts) / all.ended_at);
  log.line("compute    {:.6g} s per step of a worker", all.compute_s / steps);
  log.line(
      "exposed    {:.6g} s per step blocked on communication, of which {:.6g} "
      "s waiting for peers",
      all.sync.exposed_s / steps, all.sync.wait_s / steps);
  log.line("overlapped {:.6g} s of communication per step",
           all.sync.overlapped_s / steps);
  log.line("sent       {} per step in {:.1f} messages",
           human_bytes(static_cast<double>(all.bytes) / steps),
           static_cast<double>(all.messages) / steps);
  if (accounts[0].has_computed_sums)
    log.line(
        "rings      computed rather than sent, as all links are alike: within "
        "1% where buckets share them");
  log.line(
      "simulated  in {:.2f} s: {:.4g} steps of a worker per second, with {} of "
      "memory",
      wall_s, steps / wall_s,
      human_bytes(static_cast<double>(peak_memory_bytes())));
}

void write_results(const Session& session,
                   const Engine& engine,
                   const std::vector<Account>& accounts,
                   const std::string& path) {
  Results results(path);
  for (const auto& [name, value] : build_facts(session))
    results.provenance(name, value);
  results.provenance("input", echo_input(engine.input));
  results.provenance("argv", join(session.argv(), " "));
  results.provenance("scheme", engine.options.sync.scheme);
  results.provenance("model", engine.options.model.family);
  results.provenance("world", "simulation");
  results.provenance("seed", engine.options.run.seed);
  results.provenance("workers", static_cast<int64_t>(engine.workers));
  results.provenance("parameters", engine.model->parameters().num_elems());
  Table& table = results.table("workers");
  table.declare({"rank", "1", "worker", 0, true});
  table.declare({"steps", "1", "steps taken", 0, true});
  table.declare({"ended_s", "s", "virtual time at the end"});
  table.declare({"compute_s", "s", "forward and backward passes, in all"});
  table.declare({"exposed_s", "s", "blocked on communication, in all"});
  table.declare({"wait_s", "s", "of which waiting for peers"});
  table.declare({"overlapped_s", "s",
                 "communication that overlapped computation, in all"});
  table.declare({"bytes_sent", "byte", "sent by the scheme", 0, true});
  table.declare({"messages_sent", "1", "messages of the scheme", 0, true});
  for (size_t rank = 0; rank < accounts.size(); ++rank) {
    const Account& mine = accounts[rank];
    table.append({static_cast<double>(rank), static_cast<double>(mine.steps),
                  mine.ended_at, mine.compute_s, mine.sync.exposed_s,
                  mine.sync.wait_s, mine.sync.overlapped_s,
                  static_cast<double>(mine.bytes),
                  static_cast<double>(mine.messages)});
  }
  const Account all = sum_of(accounts);
  const double samples = samples_of(engine, accounts);
  results.summary("virtual_s", all.ended_at, "s",
                  "virtual time of the whole run");
  results.summary("samples", samples, "1", "samples seen in all");
  results.summary("samples_per_s", samples / all.ended_at, "s-1",
                  "samples per virtual second");
  results.summary("bytes_sent", static_cast<double>(all.bytes), "byte",
                  "sent by the scheme, all workers");
  results.summary("messages_sent", static_cast<double>(all.messages), "1",
                  "messages of the scheme, all workers");
  results.commit();
}

}  // namespace

ExitCode command_simulate(Session& session, const CommandLine& line) {
  std::unique_ptr<Engine> engine;
  session.agree_on([&] {
    line.allow_only({"output"}, CommandLine::Keys::kTaken);
    if (session.is_mpi())
      fail(ExitCode::kUsage,
           "simulate: all workers are in one process; start it without a "
           "launcher");
    engine = build_engine(session, line.only_argument("INPUT.ini"),
                          line.overrides, Memory::kNone);
    check_simulation(*engine);
  });
  const double begin_s = monotonic_s();
  const auto world =
      session.make_world(engine->workers, network_cost_of(*engine));
  std::vector<Account> accounts(engine->workers);
  world->run([&](Endpoint& endpoint) {
    accounts[endpoint.rank()] = simulate_worker(*engine, endpoint);
  });
  report(session.log(), *engine, accounts, monotonic_s() - begin_s);
  if (const auto output = line.options.find("output");
      output != line.options.end())
    write_results(session, *engine, accounts, output->second);
  return ExitCode::kDone;
}

}  // namespace syncopate
