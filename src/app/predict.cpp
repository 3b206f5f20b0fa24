// syncopate predict INPUT.ini --checkpoint=PATH --output=FILE
#include "app/commands.h"
#include "app/output_file.h"
#include "train/checkpoint_model.h"
#include "train/evaluator.h"

namespace syncopate {

ExitCode command_predict(Session& session, const CommandLine& line) {
  session.agree_on([&] {
    line.allow_only({"checkpoint", "output"}, CommandLine::Keys::kTaken);
    if (session.rank() != 0) return;  // one process suffices
    const std::string& named = line.required_option("output");
    const std::string& checkpoint = line.required_option("checkpoint");
    const auto engine =
        build_engine(session, line.only_argument("INPUT.ini"), line.overrides,
                     EngineUse::kTrain, saved_network(checkpoint));
    engine->problem->check_output(named);
    const DataOptions& data = engine->options.data;
    const fs::path output = output_file(
        named, {line.only_argument("INPUT.ini"), data.path, data.vocabulary});
    const EvalChoice which = engine->options.eval.model;
    if (includes_each(which))
      fail(ExitCode::kUsage,
           "predict: eval.model = {}: one model predicts: average, rank0, "
           "centre or ema",
           which);
    CheckpointModels found = load_models(*engine, checkpoint, session.log());
    const std::string said =
        engine->problem->predict(*engine, found.models[0].view(), output);
    session.log().line("{}: {}, model {}", output.string(), said, found.folder);
  });
  return ExitCode::kDone;
}

}  // namespace syncopate
