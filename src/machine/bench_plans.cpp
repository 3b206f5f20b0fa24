#include "machine/bench.h"
#include "machine/bench_step.h"
#include "ops/plan_table.h"

namespace syncopate {

// Plans are made when a shape is met first, in steps that are not recorded.
// Batches of questions differ in shape, so a few of them are taken.
void bench_plans(Session& session, Engine& engine, const fs::path& file) {
  engine.options.run.cuda_graphs = false;
  PlanTable table = fs::exists(file) ? PlanTable::read(file) : PlanTable();
  PlanTuner tuner(table, plan_origin_of(*engine.device));
  engine.context->choose_plans_by(&tuner);
  const auto world = session.make_world(engine.workers, NetworkCost{});
  world->run([&](Endpoint& endpoint) {
    StepBench(session, engine, endpoint, nullptr,
              {.warmup = 1, .least = 3, .most = 3, .least_s = 0})
        .run();
  });
  engine.context->choose_plans_by(engine.plans.get());
  table.write(file);
  const PlanTuner::Gain& gain = tuner.gain();
  session.log().line(
      "plans: {} measured; {:.3f} ms by the libraries' choice, {:.3f} ms by "
      "the "
      "fastest; {}: {}",
      gain.problems, 1e3 * gain.before_s, 1e3 * gain.after_s, file.string(),
      table.describe(plan_origin_of(*engine.device)));
}

}  // namespace syncopate
