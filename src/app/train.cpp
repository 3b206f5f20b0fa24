// syncopate train INPUT.ini [--section.key=value ...]
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <new>

#include <fmt/core.h>

#include "app/commands.h"
#include "app/network_notes.h"
#include "app/provenance.h"
#include "base/clock.h"
#include "base/text.h"
#include "config/world.h"
#include "run/run_directory.h"
#include "train/device_transport.h"
#include "train/engine.h"
#include "train/memory_plan.h"
#include "train/rank_checks.h"
#include "train/run_target.h"
#include "train/run_trace.h"
#include "train/saved_run.h"
#include "train/trainer.h"

namespace syncopate {
namespace {

// Called before data is read, which may take long. build_engine reports
// mistakes in the input.
void greet(Session& session,
           const std::string& input,
           const std::vector<std::string>& overrides) {
  const ParsedInput parsed = parse_input(input, overrides);
  if (!parsed.errors.empty()) return;
  const RunDirectory run(parsed.options,
                         workers_of(parsed.options.run, session.size()));
  refuse_if_owned(run.path());
  const auto facts = build_facts(session);
  session.log().line("syncopate {} ({}) on {}, {}", facts.at("version"),
                     facts.at("git"), session.hosts()[0], utc_now());
  session.log().line("run       {}", run.path().string());
}

void open_run(Session& session, const Engine& engine, RunDirectory& run) {
  if (session.rank() != 0) return;
  run.acquire();
  run.refuse_if_taken(engine.options);
  syncopate::create_directories(run.checkpoints());
  session.log().open(run.log());
}

// Keys that are set but have no effect in this run, and are valid in others.
void note_unused(Log& log, const Engine& engine, bool is_inproc) {
  const Options& options = engine.options;
  const auto is_given = [&](const char* key) {
    return engine.input.given.contains(key);
  };
  if (!engine.plans && is_given("run.plans") && options.run.plans != "none")
    log.line("unused    run.plans: plans are for a GPU");
  if (is_given("data.batch") && !options.data.batch_by_worker.empty())
    log.line("unused    data.batch: data.batch_by_worker replaces it");
  const SchemeInfo& scheme = scheme_info(options.sync.scheme);
  if (const int64_t round = steps_of_round(options.sync);
      round > engine.plan.total_steps && engine.workers > 1 &&
      options.sync.local_sgd.start.value == 0)
    log.line(
        "note      {} communicates every {} steps, but this run has {}: "
        "workers never exchange anything",
        scheme.keyword, round, engine.plan.total_steps);
  if (options.optimizer.lr_scale != LrScale::kNone &&
      options.optimizer.lr_factor == "graph" && !scheme.uses_topology &&
      !scheme.averages_gradients && !scheme.is_composite)
    log.line("unused    optimizer.lr_factor: {} has no graph: {} count",
             scheme.keyword, counted(engine.workers, "worker"));
  if (options.eval.batchnorm == EvalStatistics::kRecomputed &&
      engine.model->buffers().num_elems() == 0)
    log.line("unused    eval.batchnorm: this network has no BatchNorm");
  if (const auto note = scheme.note) {
    const std::string text = note(
        {options.sync, options.optimizer, engine.model->parameters(),
         engine.workers, engine.plan.total_steps, engine.plan.steps_per_epoch});
    if (!text.empty()) log.line("note      {}", text);
  }
  if (scheme.keyword == "dgc" && options.optimizer.momentum == 0 &&
      is_given("dgc.mask_momentum"))
    log.line("unused    dgc.mask_momentum: optimizer.momentum is 0");
  if (is_inproc) return note_unused_links(log, engine);
  for (const char* limit : {"run.step_timeout_s", "run.io_timeout_s"})
    if (!options.run.watchdog && is_given(limit))
      log.line("unused    {}: run.watchdog = no", limit);
  const bool has_virtual_costs = std::ranges::any_of(
      engine.input.given,
      [](const auto& given) { return is_virtual_cost(given.first); });
  if (has_virtual_costs)
    log.line(
        "unused    [compute], [network]: costs of workers in one process, not "
        "of MPI ranks");
  if (options.sync.transport == Transport::kNccl &&
      engine.device->kind() != DeviceKind::kCuda)
    log.line("unused    sync.transport: NCCL is for GPUs");
}

// The run ended before its fault struck: the worker never reached that stage at
// that step or later.
void note_unstruck_fault(Log& log, const FaultOptions& faults) {
  if (faults.kind == FaultKind::kKill || faults.kind == FaultKind::kHang)
    log.line(
        "note      faults.kind = {}: has not happened, because worker {} did "
        "not begin the stage \"{}\" at step {} or later",
        faults.kind, faults.rank, faults.stage, faults.step);
}

void print_end(Session& session,
               const RunDirectory& directory,
               const std::string& trace,
               ExitCode ending) {
  Log& log = session.log();
  if (session.rank() == 0 && fs::exists(directory.results()))
    log.line("results   {}", directory.results().string());
  if (!trace.empty()) log.line("trace     {}", trace);
  if (ending == ExitCode::kStopped || ending == ExitCode::kInterrupted)
    log.line("stopped: run the same command again to resume");
}

void print_banner(Session& session, const Engine& engine, const World& world) {
  const Options& options = engine.options;
  Log& log = session.log();
  const std::string threads = threads_of_ranks(session, engine.threads);
  log.line("world     {}, {} per worker, {}, {}", world.description(), threads,
           engine.device->name(), options.run.precision);
  log.line("model     {}: {} parameters in {} tensors, activations {}",
           options.model.family, engine.model->parameters().num_elems(),
           engine.model->parameters().num_tensors(),
           human_bytes(static_cast<double>(engine.model->activation_bytes())));
  log.line("data      {}: {} training, {} held out, {} test samples{}",
           engine.problem->source(), engine.split.train.size(),
           engine.split.validation.size(),
           engine.problem->test_samples().samples,
           engine.problem->note(engine));
  const std::string rate = engine.rate_text();
  log.line(
      "plan      {} of {}, {} samples ({:.2f} epochs), scheme {}{}",
      counted(engine.plan.stop_at, "step"), counted(engine.workers, "worker"),
      engine.samples_a_step,
      static_cast<double>(engine.plan.stop_at) / engine.plan.steps_per_epoch,
      options.sync.scheme, rate.empty() ? "" : ", lr " + rate);
  if (const double warmup =
          options.schedule.warmup.steps(engine.plan.steps_per_epoch);
      warmup > static_cast<double>(engine.plan.total_steps))
    log.line("note      the run ends within schedule.warmup, of {:g} steps",
             warmup);
  if (engine.plans)
    log.line("plans     {}: {}", options.run.plans, engine.plans->describe());
  if (!engine.plan.limit.empty()) log.line("limit     {}", engine.plan.limit);
  if (const RunTarget target(engine); target)
    log.line("target    {}", target.description());
  note_unused(log, engine, world.is_inproc());
  if (const std::string taken = describe_taken(engine.input); !taken.empty())
    log.line(
        "taken     from the resumed run, where it differs from the "
        "defaults: {}",
        taken);
}

void state_provenance(Session& session,
                      const Engine& engine,
                      Results& results) {
  state_engine(results, session, engine);
  results.provenance("hosts", join(session.hosts(), " "));
  results.provenance("device", engine.device->name());
  results.first_provenance("started_utc", utc_now());
  results.provenance("data", engine.problem->source());
  results.provenance("data_digest", engine.problem->digest());
  results.provenance("world", session.size() > 1 ? "mpi" : "inproc");
  results.provenance("threads", static_cast<int64_t>(engine.threads));
  results.provenance("tensors", engine.model->parameters().num_tensors());
  const char* job = std::getenv("SLURM_JOB_ID");
  results.provenance("slurm_job", job ? job : "");
}

// Whether there is nothing to resume from.
bool starts_from_weights(const Engine& engine, const RunDirectory& run) {
  std::error_code ignored;
  const std::string& resume = engine.options.checkpoint.resume;
  return resume == "none" ||
         (resume == "auto" && fs::is_empty(run.checkpoints(), ignored));
}

// A folder without an input has at most the trace of a simulation.
void remove_simulated_trace(const Engine& engine, const RunDirectory& run) {
  std::error_code ignored;
  if (engine.options.output.trace == Tracing::kOff &&
      !fs::exists(run.input(), ignored))
    fs::remove(run.path() / "trace.json", ignored);
}

ExitCode train(Session& session,
               const CommandLine& line,
               std::unique_ptr<RunDirectory>& directory) {
  install_signal_handlers();
  if (session.rank() == 0) answer_interrupts();
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Results> results;
  session.agree_on([&] {
    line.allow_only({}, CommandLine::Keys::kTaken);
    if (session.rank() == 0)
      greet(session, line.only_argument("INPUT.ini"), line.overrides);
  });
  const std::string& input = line.only_argument("INPUT.ini");
  const std::optional<SavedRun> saved =
      find_saved_run(session, input, line.overrides);
  session.agree_on([&] {
    engine =
        build_engine(session, input, line.overrides, EngineUse::kTrain, saved);
    engine->problem->require_labels();
    if (!engine->memory_shortage.empty())
      fail(ExitCode::kBadInput, "{}", engine->memory_shortage);
    directory =
        std::make_unique<RunDirectory>(engine->options, engine->workers);
    open_run(session, *engine, *directory);
    if (session.rank() == 0 && starts_from_weights(*engine, *directory))
      engine->model->open_start();
    if (session.rank() == 0) {
      results = std::make_unique<Results>(directory->results());
      state_provenance(session, *engine, *results);
    }
  });
  check_same_input(session, *engine);
  check_shared_directory(session, *directory);
  session.watch(engine->options.run,
                (directory->path() / "hang-report.txt").string());
  const std::unique_ptr<World> world =
      session.make_world(engine->workers, network_cost_of(*engine));
  print_banner(session, *engine, *world);
  TimeLimit time_limit(session, engine->options.run.time_limit_s);
  if (!time_limit.description().empty())
    session.log().line("limit     {}", time_limit.description());

  ExitCode ending = ExitCode::kDone;
  std::error_code ignored;
  const bool is_new = fs::is_empty(directory->checkpoints(), ignored);
  if (is_new && session.rank() == 0)
    remove_simulated_trace(*engine, *directory);
  RunTrace trace(
      session, *engine, directory->path(),
      is_new ? RunTrace::Start::kNew : RunTrace::Start::kPerhapsResumed);
  const auto work = [&](Endpoint& plain) {
    Endpoint& endpoint = trace.attach(plain);
    const DeviceTransport transport =
        choose_transport(*engine, session.hosts()[session.rank()], endpoint);
    if (endpoint.rank() == 0 && !transport.text.empty()) {
      session.log().line("transport {}", transport.text);
      results->provenance("transport", transport.text);
    }
    Trainer trainer(session, *engine, *directory, time_limit, endpoint,
                    transport.collectives.get(),
                    endpoint.rank() == 0 ? results.get() : nullptr);
    const ExitCode mine = trainer.run();
    trace.finish(plain);
    if (endpoint.rank() == 0 || session.size() > 1) ending = mine;
  };
  try {
    world->run(work);
  } catch (const OutOfMemory&) {
    fail(ExitCode::kInternal, "{}", out_of_memory_line(session, *engine));
  } catch (const std::bad_alloc&) {
    fail(ExitCode::kInternal, "{}", out_of_memory_line(session, *engine));
  }
  if (ending == ExitCode::kDone)
    note_unstruck_fault(session.log(), engine->options.faults);
  print_end(session, *directory, trace.description(), ending);
  return ending;
}

// An error of another rank than 0, whose log is the run's: a launcher may lose
// its line.
void note_of_rank(const Session& session,
                  const RunDirectory& run,
                  const Error& error) {
  const bool is_own = dynamic_cast<const AgreedError*>(&error) == nullptr &&
                      error.code() != ExitCode::kPeerLost;
  std::error_code ignored;
  if (!is_own || !fs::exists(run.log(), ignored)) return;
  std::ofstream(run.log(), std::ios::app)
      << fmt::format("error: [rank {}] {}\n", session.rank(), error.what());
}

}  // namespace

ExitCode command_train(Session& session, const CommandLine& line) {
  std::unique_ptr<RunDirectory> directory;
  try {
    return train(session, line, directory);
  } catch (const Error& error) {
    const bool is_refused = error.code() == ExitCode::kUsage ||
                            error.code() == ExitCode::kBadInput ||
                            error.code() == ExitCode::kInputMissing;
    if (session.rank() == 0)
      session.log().note_in_file(fmt::format("error: {}", error.what()));
    else if (directory)
      note_of_rank(session, *directory, error);
    if (is_refused && directory && session.rank() == 0) directory->abandon();
    throw;
  }
}

}  // namespace syncopate
