#include "train/engine.h"

#include <omp.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "base/thread.h"
#include "config/value.h"
#include "config/world.h"
#include "data/sampler.h"
#include "sync/bucket.h"
#include "sync/phases.h"
#include "train/audit.h"
#include "train/best_figure.h"
#include "train/export_model.h"
#include "train/memory_plan.h"
#include "train/run_target.h"
#include "train/variants.h"
#include "train/virtual_limit.h"

namespace syncopate {
namespace {

// The GPU's libraries use the plans of the file where it has any.
void use_plans(Engine& engine) {
  engine.plans =
      std::make_unique<TablePlans>(PlanTable::read(engine.options.run.plans),
                                   plan_origin_of(*engine.device));
  engine.context->choose_plans_by(engine.plans.get());
}

std::unique_ptr<Device> make_device(const Options& options, int local_rank) {
  const int gpus = cuda_device_count();
  if (options.run.device == DeviceChoice::kCuda ||
      (options.run.device == DeviceChoice::kAuto && gpus > 0))
    return make_cuda_device(gpus > 0 ? local_rank % gpus : 0);
  if (options.run.precision == Precision::kBf16 && !cpu_features().has_bf16)
    fail(ExitCode::kBadInput,
         "run.precision: bf16: this processor ({}) has no bf16 instructions "
         "(avx512_bf16); use fp32",
         cpu_features().model);
  return make_cpu_device();
}

// A rule for the momentum after a switch requires an optimizer with momentum,
// which the phase's overrides may choose.
std::string momentum_mistake(const Options& options,
                             const Options& before,
                             const Options& after) {
  const MomentumRule rule = options.sync.sync_switch.momentum_rule;
  const bool has_momentum =
      after.optimizer.kind == "sgd" && after.optimizer.momentum > 0;
  if (rule == MomentumRule::kKeep || has_momentum ||
      !scheme_info(before.sync.scheme).averages_gradients ||
      scheme_info(after.sync.scheme).averages_gradients)
    return "";
  return fmt::format(
      "sync_switch.momentum_rule: {}, but the optimizer after the switch has "
      "no momentum factor, expected keep",
      rule);
}

// sync_switch.lr_rule knows the input's optimizer.lr_scale only.
std::string rate_mistake(const Options& options, const Options& phase) {
  const LrRule rule = options.sync.sync_switch.lr_rule;
  if (rule == LrRule::kNone || phase.optimizer.lr_scale == LrScale::kNone)
    return "";
  return fmt::format(
      "sync_switch.overrides: optimizer.lr_scale: {} where "
      "sync_switch.lr_rule = {} scales the rate, expected none",
      phase.optimizer.lr_scale, rule);
}

void plan_scheme(Engine& engine) {
  const Options& options = engine.options;
  if (scheme_info(options.sync.scheme).is_composite)
    engine.phases = phase_options(engine.input, engine.options, engine.saved);
  if (engine.uses_trained_model()) return;  // nothing is trained
  const auto refuse = [&](const std::string& obstacle) {
    if (!obstacle.empty()) engine.input.refuse(obstacle);
  };
  const auto check = [&](const Options& of) {
    refuse(scheme_obstacle({of.sync, of.optimizer, engine.model->parameters(),
                            engine.workers, engine.plan.total_steps,
                            engine.plan.steps_per_epoch}));
  };
  check(options);
  if (options.eval.model == EvalChoice::kCentre &&
      !scheme_info(options.sync.scheme).has_centre)
    refuse(
        fmt::format("eval.model: is centre, which sync.scheme = {} does not "
                    "have; expected each, average, rank0 or each_and_average",
                    options.sync.scheme));
  for (const Options& phase : engine.phases) {
    check(phase);
    refuse(rate_mistake(options, phase));
  }
  for (size_t i = 1; i < engine.phases.size(); ++i)
    refuse(momentum_mistake(options, engine.phases[i - 1], engine.phases[i]));
  const auto audit = engine.input.resolved.find("run.audit");
  if (options.run.audit.value == 0 || keeps_replicas_equal(options.sync) ||
      audit == engine.input.resolved.end())
    return;
  if (engine.input.given.contains("run.audit"))
    refuse(
        "run.audit: sync_switch.order has a scheme under which replicas are "
        "not equal, expected 0");
  audit->second = std::string("0");  // an input of its own, which runs as it is
}

// Starts the OpenMP threads of this process. If libgomp cannot start a thread,
// it ends the process with code 1 and a message of its own, so this checks
// beforehand that the largest number of simultaneous threads can be started.
void start_team(int threads) {
  omp_set_num_threads(threads);
  if (threads == 1) return;
  constexpr int kOwnThreads = 3;  // watch, files, next batches
  // When a team grows again, threads that it gave up may not have ended yet.
  expect_threads(2 * (threads - 1) + kOwnThreads);
#pragma omp parallel
  {}
}

}  // namespace

bool Engine::uses_trained_model() const {
  return saved && saved->input.take == SavedInput::Take::kNetwork;
}

int64_t Engine::training_batch() const {
  const bool recomputes = options.eval.batchnorm != EvalStatistics::kRunning;
  return uses_trained_model() && !recomputes ? 0 : options.data.batch;
}

double Engine::scaled_lr(const Options& of, int rank) const {
  int neighbours = workers;  // phases may have topologies of their own
  if (of.optimizer.lr_factor == "graph" &&
      scheme_info(of.sync.scheme).uses_topology)
    neighbours = make_topology(of.sync.topology, workers).scaling(rank);
  return scaled_rate(
      of.optimizer,
      mean_samples() / static_cast<double>(options.data.accumulate), workers,
      neighbours);
}

std::string Engine::rate_text() const {
  constexpr int kMostRanks = 1024;  // whose topologies are looked at
  std::vector<double> rates;
  const auto add = [&](const Options& of, double factor) {
    if (of.schedule.kind == ScheduleKind::kOneCycle ||
        of.schedule.kind == ScheduleKind::kFields)
      return;
    const bool differ = of.optimizer.lr_factor == "graph";
    for (int rank = 0; rank < (differ ? std::min(workers, kMostRanks) : 1);
         ++rank)
      rates.push_back(factor * scaled_lr(of, rank));
  };
  for (const Options& phase : phases)
    add(phase,
        rate_factor(
            options.sync.sync_switch.lr_rule,
            scheme_info(phase.sync.scheme).averages_gradients ? workers : 0,
            workers));
  if (phases.empty()) add(options, 1);
  if (rates.empty()) return "";
  const auto [least, most] = std::ranges::minmax(rates);
  return least < most ? fmt::format("{:.5g} to {:.5g}", least, most)
                      : fmt::format("{:.5g}", most);
}

Schedule Engine::schedule_of(const Options& of, int rank) const {
  const Length& own = of.schedule.horizon;  // a phase may have another one
  const double horizon =
      own.value > 0 ? own.steps(plan.steps_per_epoch) : plan.horizon;
  return {of.schedule, scaled_lr(of, rank), horizon, plan.steps_per_epoch};
}

int64_t Engine::replica_bytes() const {
  const ParameterTable& table = model->parameters();
  // An optimizer keeps the same amount for every element. One for the whole
  // range would allocate the memory whose size is in question.
  const int64_t state_a_parameter =
      make_optimizer(*context, options.optimizer, table, 0, 1)->state_elems();
  const int64_t averages = options.eval.model == EvalChoice::kEma ? 1 : 0;
  const ShadowTable* const kept = copies();
  return 4 * ((2 + state_a_parameter + averages) * table.num_elems() +
              (1 + averages) * model->buffers().num_elems()) +
         (kept != nullptr ? 2 * kept->num_elems() : 0);
}

const ShadowTable* Engine::copies() const {
  return options.run.bf16_weights ? model->copies() : nullptr;
}

bool Engine::sends_rows() const {
  return syncopate::sends_rows(options.sync, model->parameters());
}

int64_t Engine::next_boundary(int64_t worker_steps) const {
  int64_t until = plan.stop_at * workers;
  const int64_t audit_every =
      audits_have_boundaries(options.sync) ? plan.audit_every : 0;
  for (const int64_t every :
       {plan.eval_every, plan.checkpoint_every, audit_every})
    if (every > 0)
      until = std::min(
          until, (worker_steps / (every * workers) + 1) * every * workers);
  return until;
}

double Engine::mean_samples() const {
  return static_cast<double>(samples_a_step) / workers;
}

double Engine::loss_samples(int rank) const {
  return scheme_info(options.sync.scheme).averages_gradients
             ? mean_samples()
             : static_cast<double>(options.data.batch_of(rank) *
                                   options.data.accumulate);
}

namespace {

// Refuses metrics that run.target or checkpoint.best name but no evaluation
// has.
void refuse_unknown_metrics(const Engine& engine) {
  const RunTarget target(engine);
  const BestFigure best(engine);
}

// BatchNorm may need more samples than a worker's batch has.
void refuse_small_batch(const Engine& engine) {
  if (engine.training_batch() == 0) return;
  const std::vector<double>& batches = engine.options.data.batch_by_worker;
  int64_t least = engine.options.data.batch;
  if (!batches.empty() && !engine.uses_trained_model())
    least = static_cast<int64_t>(*std::ranges::min_element(batches));
  const std::string obstacle = engine.model->batch_obstacle(least);
  if (!obstacle.empty())
    engine.input.refuse(
        fmt::format("{}: {}: {}; expected at least 2",
                    batches.empty() ? "data.batch" : "data.batch_by_worker",
                    least, obstacle));
}

// Beside a GPU one thread gives it work, and the others are free.
int feed_threads_of(const Session& session, const Engine& engine) {
  const bool is_cuda = engine.device->kind() == DeviceKind::kCuda;
  const int busy = is_cuda ? 1 : engine.threads;
  const int all = is_cuda ? engine.threads : session.cores_of_rank();
  return std::max(1, all - busy);
}

// Sets the numbers of workers and threads and what follows from them.
void count_workers(const Session& session, Engine& engine) {
  Options& options = engine.options;
  const std::vector<double>& batches = options.data.batch_by_worker;
  if (!batches.empty())  // what memory is planned for
    options.data.batch =
        static_cast<int64_t>(*std::max_element(batches.begin(), batches.end()));
  engine.workers = session.workers(options.run.workers);
  engine.threads = session.threads(options.run.threads);
  engine.steps_begun.assign(engine.workers, 0);
  for (int rank = 0; rank < engine.workers; ++rank)
    engine.samples_a_step +=
        options.data.batch_of(rank) * options.data.accumulate;
  for (const double batch : batches)
    engine.batch_weights.push_back(
        batch * static_cast<double>(options.data.accumulate) /
        engine.mean_samples());
  const bool goes_on = engine.saved && engine.saved->goes_on();
  engine.length_workers =
      goes_on ? engine.saved->length_workers : engine.workers;
  if (engine.length_workers != engine.workers)
    scale_lengths(options,
                  static_cast<double>(engine.length_workers) / engine.workers);
  engine.input.resolved["run.workers"] = std::to_string(engine.workers);
  engine.input.resolved["run.threads"] = std::to_string(engine.threads);
}

void open_device(const Session& session, Engine& engine, EngineUse use) {
  const RunOptions& run = engine.options.run;
  engine.device = use == EngineUse::kSimulate
                      ? make_none_device()
                      : make_device(engine.options, session.local_rank());
  const bool is_cuda = engine.device->kind() == DeviceKind::kCuda;
  engine.input.resolved["run.device"] = is_cuda ? "cuda" : "cpu";
  engine.feed_threads = feed_threads_of(session, engine);
  engine.stream = engine.device->make_stream();
  engine.context = std::make_unique<Context>(
      *engine.device, *engine.stream, engine.threads,
      run.deterministic ? Determinism::kRequired : Determinism::kOff);
  if (is_cuda && run.plans != "none") use_plans(engine);
}

void expect_trained_model(Engine& engine) {
  DataOptions& data = engine.options.data;
  data.trained.is_used = true;
  const auto classes = engine.saved->facts.find(kClassesFact);
  if (classes != engine.saved->facts.end())
    data.trained.classes = parse_int(classes->second).value_or(0);
  const auto names = engine.saved->facts.find(kClassNamesFact);
  if (names == engine.saved->facts.end()) return;
  std::vector<std::string> lines = divide(names->second, '\n');
  // Earlier programs accepted names with a line break.
  if (data.trained.classes == 0 || std::ssize(lines) == data.trained.classes)
    data.trained.class_names = std::move(lines);
}

// Chooses the samples that are held out and the order of the others.
void order_samples(Engine& engine) {
  Options& options = engine.options;
  const SampleTable training = engine.problem->training_samples();
  const auto seed = static_cast<uint64_t>(options.run.seed);
  const bool recomputes = options.eval.batchnorm != EvalStatistics::kRunning;
  if (training.samples > 0) {
    engine.split = split_validation(options.data, training, seed);
    const std::vector<int64_t>& train = engine.split.train;
    if (!engine.uses_trained_model())
      engine.sampler = std::make_unique<Sampler>(options.data, training, train,
                                                 engine.workers, seed);
    else if (recomputes && std::ssize(train) < options.data.batch)
      fail(ExitCode::kBadInput,
           "eval.batchnorm: {} needs data.batch = {} training samples, but "
           "there are {}",
           options.eval.batchnorm, options.data.batch, train.size());
    return;
  }
  if (recomputes)
    fail(ExitCode::kBadInput,
         "eval.batchnorm: {}: {} has no training set, expected running",
         options.eval.batchnorm, engine.problem->source());
  const auto given = engine.input.given.find("eval.on");
  if (options.eval.on == SetPart::kValidation &&
      given != engine.input.given.end() && given->second == "command line")
    engine.input.refuse(
        fmt::format("eval.on: is validation, but {} has no training set, of "
                    "which that is a part; expected test",
                    engine.problem->source()));
  options.eval.on = SetPart::kTest;  // nothing else is there
}

// So that memory is planned for no more samples than there are to evaluate.
void limit_eval_batch(Engine& engine) {
  int64_t& batch = engine.options.eval.batch;
  batch = std::min(batch,
                   std::max({int64_t{1}, engine.problem->test_samples().samples,
                             std::ssize(engine.split.validation)}));
}

// `problem` is null, or that of an engine with the same [data].
std::unique_ptr<Engine> build(Session& session,
                              const std::string& input_path,
                              const std::vector<std::string>& overrides,
                              const std::vector<std::string>& own,
                              std::shared_ptr<Problem> problem,
                              EngineUse use,
                              const std::optional<SavedRun>& saved) {
  auto engine = std::make_unique<Engine>();
  engine->input = parse_variant(input_path, overrides, own, saved);
  engine->saved = saved;
  check_world(engine->input, session.size());
  refuse_errors(engine->input);
  engine->options = engine->input.options;
  const Options& options = engine->options;
  session.watch(options.run, "");
  count_workers(session, *engine);
  open_device(session, *engine, use);

  if (engine->uses_trained_model()) expect_trained_model(*engine);
  engine->problem = problem ? problem : make_problem(options, engine->threads);
  if (saved && saved->goes_on() && !saved->data.empty() &&
      saved->data != engine->problem->digest()) {
    // With other data it is a new run, which takes only the network.
    SavedRun warm = *saved;
    warm.input.take = SavedInput::Take::kModel;
    return build(session, input_path, overrides, own, nullptr, use, warm);
  }
  order_samples(*engine);
  limit_eval_batch(*engine);
  engine->plan = make_run_plan(engine->input, options, engine->sampler.get());
  if (options.compute.law == StepLaw::kTrace)
    engine->recorded_durations.emplace(
        options.compute.trace, engine->workers,
        is_length_open(options.run) ? 1 : engine->plan.total_steps);
  engine->model = make_model(
      options.model, engine->problem->spec(),
      options.run.precision == Precision::kBf16 ? DType::kBf16 : DType::kF32);
  plan_scheme(*engine);
  refuse_unknown_metrics(*engine);
  refuse_small_batch(*engine);
  if (use == EngineUse::kTrain) {
    plan_memory(session, *engine);
    start_team(engine->threads);
    engine->problem->prepare(*engine, ranks_a_gpu(session));
  }
  if (use == EngineUse::kSimulate)
    engine->model->plan(*engine->context, options.data.batch,
                        options.eval.batch);
  return engine;
}

constexpr const char* kLimit = "run.virtual_limit_s";

// Returns the run.steps of the saved run, if its limit was the same: a resumed
// run keeps its length.
std::optional<int64_t> saved_steps(const Engine& engine) {
  if (!engine.saved || engine.saved->is_warm_start()) return std::nullopt;
  const auto& values = engine.saved->input.values;
  const auto limit = values.find(kLimit), steps = values.find("run.steps");
  if (limit == values.end() || steps == values.end() ||
      parse_double(limit->second) != engine.options.run.virtual_limit_s)
    return std::nullopt;
  return parse_int(steps->second);
}

// Resolves run.virtual_limit_s of an input without mistakes.
std::unique_ptr<Engine> build_limited(Session& session,
                                      const ParsedInput& input,
                                      EngineUse use,
                                      const std::optional<SavedRun>& saved) {
  const auto with_steps = [&](int64_t steps) {
    return std::vector<std::string>{
        fmt::format("--{}={}", kLimit, input.resolved.at(kLimit)),
        fmt::format("--run.steps={}", steps)};
  };
  const auto open = build(session, input.path, input.overrides, with_steps(0),
                          nullptr, EngineUse::kSimulate, saved);
  const std::optional<int64_t> before = saved_steps(*open);
  if (!before && open->length_workers != open->workers)
    input.refuse(
        fmt::format("{}: cannot change in a run that resumes with another "
                    "number of workers ({}, now {}), expected run.steps",
                    kLimit, open->length_workers, open->workers));
  const TimedLength length = before
                                 ? TimedLength{*before, 0}
                                 : longest_within_limit(*open, session.log());
  const int64_t given =
      input.given.contains("run.steps") ? input.options.run.steps : 0;
  if (given > 0 && given != length.steps)
    input.refuse(
        fmt::format("{}: cannot be combined with run.steps = {}, expected one "
                    "of the two ({} steps fit into {} s)",
                    kLimit, given, length.steps, input.resolved.at(kLimit)));
  auto engine =
      build(session, input.path, input.overrides, with_steps(length.steps),
            open->problem, use, open->saved);
  engine->plan.limit =
      before ? fmt::format("{} steps of {} workers, as when the run began",
                           length.steps, open->length_workers)
             : fmt::format("{} steps, whose last worker ends at {:.6g} s",
                           length.steps, length.ends_at);
  engine->plan.limit =
      fmt::format("{} s of virtual time: {}", input.resolved.at(kLimit),
                  engine->plan.limit);
  return engine;
}

}  // namespace

std::unique_ptr<Engine> build_engine(Session& session,
                                     const std::string& input_path,
                                     const std::vector<std::string>& overrides,
                                     EngineUse use,
                                     const std::optional<SavedRun>& saved) {
  ParsedInput input =
      parse_input(input_path, overrides, saved ? &saved->input : nullptr);
  check_world(input, session.size());
  const bool trains = !saved || saved->input.take != SavedInput::Take::kNetwork;
  if (input.errors.empty() && input.options.run.virtual_limit_s > 0 && trains)
    return build_limited(session, input, use, saved);
  return build(session, input_path, overrides, {}, nullptr, use, saved);
}

std::unique_ptr<Engine> build_variant(Session& session,
                                      const Engine& base,
                                      const std::vector<std::string>& own,
                                      EngineUse use) {
  std::vector<std::string> all = own;
  if (base.options.run.virtual_limit_s > 0) {  // resolved for the base only
    all.push_back("--run.virtual_limit_s=0");
    all.push_back(fmt::format("--run.steps={}", base.plan.total_steps));
  }
  return build(session, base.input.path, base.input.overrides, all,
               base.problem, use, std::nullopt);
}

}  // namespace syncopate
