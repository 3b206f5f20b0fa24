// syncopate evaluate INPUT.ini --checkpoint=PATH
#include "app/checkpoint_model.h"
#include "app/commands.h"
#include "app/evaluator.h"

namespace syncopate {

ExitCode command_evaluate(Session& session, const CommandLine& line) {
  std::unique_ptr<Engine> engine;
  CheckpointModels found;
  session.agree_on([&] {
    line.allow_only({"checkpoint"}, CommandLine::Keys::kTaken);
    const std::string& path = line.required_option("checkpoint");
    engine =
        build_engine(session, line.only_argument("INPUT.ini"), line.overrides);
    found = load_models(*engine, path, session.log());
  });
  const auto metrics = engine->model->metrics();
  const std::unique_ptr<World> world =
      session.make_world(session.size(), NetworkCost{});
  world->run([&](Endpoint& endpoint) {
    MetricSums mine{std::vector<double>(metrics.size(), 0.0), 0};
    for (CheckpointModel& model : found.models)
      mine.add(evaluate_batches(*engine, model.view(), endpoint.rank(),
                                endpoint.size()));
    const MetricSums sums = sum_over_workers(endpoint, mine);
    std::string text;
    for (size_t i = 0; i < metrics.size(); ++i)
      text += fmt::format("{}{} {:.6f}", i ? "  " : "", metrics[i].name,
                          sums.values[i] / sums.samples);
    session.log().line("{}: {} set, {} samples: {}", found.folder,
                       engine->options.eval.on,
                       engine->evaluation_indices().size(), text);
  });
  return ExitCode::kDone;
}

}  // namespace syncopate
