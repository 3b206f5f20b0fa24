// syncopate evaluate INPUT.ini --checkpoint=PATH
// syncopate evaluate INPUT.ini --predictions=FILE
#include <algorithm>

#include "app/commands.h"
#include "base/text.h"
#include "data/kinds.h"
#include "data/questions/answers.h"
#include "data/thread_pool.h"
#include "train/checkpoint_model.h"
#include "train/evaluator.h"
#include "train/rank_checks.h"

namespace syncopate {
namespace {

// Scores answers of any origin against the correct ones; no network is
// involved.
void judge_predictions(Session& session, const CommandLine& line) {
  ParsedInput input =
      parse_input(line.only_argument("INPUT.ini"), line.overrides);
  refuse_errors(input);
  const auto kinds = kinds_of(Samples::kQuestions);
  const Options& options = input.options;
  if (std::count(kinds.begin(), kinds.end(), options.data.kind) == 0)
    fail(ExitCode::kUsage,
         "--predictions: data.kind = {}: expected one of questions: {}",
         options.data.kind, join(kinds, ", "));
  if (options.eval.on != SetPart::kTest)
    fail(ExitCode::kUsage, "--predictions: expected eval.on = test");
  const fs::path file = line.required_option("predictions");
  const auto predictions = read_predictions(file);
  const SquadScore score = score_predictions(
      load_questions(options.data, usable_cores(), QuestionParts::kTest).test,
      predictions);
  session.log().line(
      "{}: test set, {} questions, {} of them unanswered, in percent: "
      "exact_match {} f1 {}",
      file.string(), score.questions, score.unanswered, score.exact_match,
      score.f1);
}

}  // namespace

ExitCode command_evaluate(Session& session, const CommandLine& line) {
  const bool has_predictions = line.options.contains("predictions");
  session.agree_on([&] {
    line.allow_only({"checkpoint", "predictions"}, CommandLine::Keys::kTaken);
    const bool has_checkpoint = line.options.contains("checkpoint");
    if (has_predictions == has_checkpoint)
      fail(ExitCode::kUsage,
           "evaluate: {}, expected --checkpoint=PATH or --predictions=FILE "
           "(syncopate --help)",
           has_checkpoint ? "both are given" : "nothing to evaluate");
    if (has_predictions && session.rank() == 0)
      judge_predictions(session, line);
  });
  if (has_predictions) return ExitCode::kDone;
  std::unique_ptr<Engine> engine;
  CheckpointModels found;
  session.agree_on([&] {
    const std::string& path = line.required_option("checkpoint");
    engine =
        build_engine(session, line.only_argument("INPUT.ini"), line.overrides,
                     EngineUse::kTrain, saved_network(path));
    engine->problem->require_labels();
    found = load_models(*engine, path, session.log());
  });
  // Ranks divide the batches among themselves.
  check_same_input(session, *engine);
  check_same_checkpoint(session, found.folder, found.digest);
  const auto metrics = engine->problem->metrics();
  const std::unique_ptr<World> world =
      session.make_world(session.size(), NetworkCost{});
  world->run([&](Endpoint& endpoint) {
    const SetPart part = engine->options.eval.on;
    const auto samples = std::ssize(engine->problem->indices(*engine, part));
    const auto result_of = [&](EvaluatedModel& model) {
      return evaluate_batches(*engine, part, model.view(), endpoint.rank(),
                              endpoint.size())
          ->metrics(&endpoint);
    };
    const auto print = [&](const char* whose,
                           const std::vector<double>& values) {
      std::string text;
      for (size_t i = 0; i < metrics.size(); ++i)
        text += fmt::format("{}{} {:.6f}", i ? "  " : "", metrics[i].name,
                            values[i]);
      session.log().line("{}: {} set, {}{}: {}", found.folder, part,
                         counted(samples, "sample"), whose, text);
    };
    std::vector<std::vector<double>> by_model;
    for (EvaluatedModel& model : found.models)
      by_model.push_back(result_of(model));
    print("", mean_of(by_model));
    if (found.average) print(", the average model", result_of(*found.average));
  });
  return ExitCode::kDone;
}

}  // namespace syncopate
