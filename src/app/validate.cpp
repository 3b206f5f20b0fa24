// syncopate validate INPUT.ini: checks input and data, prints the plan.
#include "app/commands.h"
#include "base/text.h"
#include "run/run_directory.h"
#include "sync/planned_bytes.h"
#include "train/engine.h"
#include "train/run_target.h"

namespace syncopate {
namespace {

void print_plan(Log& log, const Engine& engine) {
  const Options& options = engine.options;
  const ParameterTable& parameters = engine.model->parameters();
  const RunPlan& plan = engine.plan;
  const auto replica_bytes = static_cast<double>(engine.replica_bytes());
  const auto activation_bytes =
      static_cast<double>(engine.model->activation_bytes());

  log.line(
      "model     {}: {} parameters in {} tensors, {:.4g} M multiply-adds "
      "a sample forward",
      options.model.family, parameters.num_elems(), parameters.num_tensors(),
      engine.model->forward_macs() * 1e-6);
  log.line("data      {}: {}; {} training, {} held out, {} test samples",
           engine.problem->source(), engine.problem->describe(),
           engine.split.train.size(), engine.split.validation.size(),
           engine.problem->test_samples().samples);
  if (const std::string start = engine.model->describe_start(); !start.empty())
    log.line("start     {}", start);
  log.line("workers   {}, {} samples a step together", engine.workers,
           engine.samples_a_step);
  log.line(
      "steps     {} ({:.2f} epochs; an epoch has {:.1f} steps); log every {}, "
      "evaluate every {}, checkpoint every {} (0: at the end)",
      plan.stop_at, static_cast<double>(plan.stop_at) / plan.steps_per_epoch,
      plan.steps_per_epoch, plan.log_every, plan.eval_every,
      plan.checkpoint_every);
  if (!plan.limit.empty()) log.line("limit     {}", plan.limit);
  if (const RunTarget target(engine); target)
    log.line("target    {}", target.description());
  const std::string rate = engine.rate_text();
  log.line("rate      {}schedule {} over {:.0f} steps",
           rate.empty() ? "" : rate + " after scaling, ", options.schedule.kind,
           plan.horizon);
  log.line(
      "memory    replica {}{} plus scheme state, activations "
      "{}, data {}",
      human_bytes(replica_bytes),
      engine.workers > 1 ? fmt::format(" x {}", engine.workers) : "",
      human_bytes(activation_bytes),
      human_bytes(static_cast<double>(engine.problem->memory_bytes())));
  const auto sent = planned_bytes(
      {.sync = options.sync,
       .optimizer = options.optimizer,
       .parameters = parameters,
       .workers = engine.workers,
       .total_steps = plan.total_steps,
       .has_servers_apart = options.network.servers == ServerPlace::kApart},
      engine.model->buffers().num_elems());
  const int64_t round = steps_of_round(options.sync);
  log.line(
      "sent      {}, {}{}", options.sync.scheme,
      sent ? human_bytes(*sent) + " per worker and step"
           : std::string("depends on the course of the run"),
      sent && round > 1 ? fmt::format(", in rounds of {} steps", round) : "");
  log.line("directory {}",
           RunDirectory(options, engine.workers).path().string());
}

}  // namespace

ExitCode command_validate(Session& session, const CommandLine& line) {
  session.agree_on([&] {
    line.allow_only({}, CommandLine::Keys::kTaken);
    const auto engine =
        build_engine(session, line.only_argument("INPUT.ini"), line.overrides);
    engine->problem->require_labels();
    if (session.rank() == 0)
      if (const std::string read = engine->problem->check(); !read.empty())
        session.log().line("{}", read);
    engine->model->open_start();
    print_plan(session.log(), *engine);
    // The run may be meant for another machine.
    if (!engine->memory_shortage.empty())
      session.log().warning("on this machine: " + engine->memory_shortage);
    session.log().line("ok        {}", line.positional[0]);
  });
  return ExitCode::kDone;
}

}  // namespace syncopate
