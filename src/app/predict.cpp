// syncopate predict INPUT.ini --checkpoint=PATH --output=FILE
#include <algorithm>

#include "app/checkpoint_model.h"
#include "app/commands.h"
#include "app/evaluator.h"
#include "base/hdf5_file.h"

namespace syncopate {
namespace {

// sample,label,predicted,score_0,...: label is the data set's own.
std::string as_csv(const std::vector<int64_t>& samples,
                   const std::vector<int32_t>& labels,
                   const std::vector<int32_t>& predicted,
                   const std::vector<float>& scores,
                   int64_t classes) {
  std::string text = "sample,label,predicted";
  for (int64_t k = 0; k < classes; ++k) text += fmt::format(",score_{}", k);
  text += '\n';
  for (size_t n = 0; n < samples.size(); ++n) {
    text += fmt::format("{},{},{}", samples[n], labels[n], predicted[n]);
    for (int64_t k = 0; k < classes; ++k)
      text += fmt::format(",{}", scores[n * classes + k]);
    text += '\n';
  }
  return text;
}

void write_h5(const fs::path& path,
              const std::vector<int64_t>& samples,
              const std::vector<int32_t>& labels,
              const std::vector<int32_t>& predicted,
              const std::vector<float>& scores,
              int64_t classes) {
  const std::vector<int64_t> rows = {std::ssize(samples)};
  const std::vector<int64_t> table = {std::ssize(samples), classes};
  replace_file(path, [&](const fs::path& temporary) {
    Hdf5Writer file(temporary);
    file.write<int64_t>("sample", rows, samples);
    file.write<int32_t>("label", rows, labels);
    file.write<int32_t>("predicted", rows, predicted);
    file.write<float>("scores", table, scores);
    file.attribute("scores", "description",
                   "logits by class; softmax of a row gives probabilities");
    file.close();
  });
}

}  // namespace

ExitCode command_predict(Session& session, const CommandLine& line) {
  session.agree_on([&] {
    line.allow_only({"checkpoint", "output"}, CommandLine::Keys::kTaken);
    if (session.rank() != 0) return;  // one process suffices
    const fs::path output = line.required_option("output");
    if (output.extension() != ".csv" && output.extension() != ".h5")
      fail(ExitCode::kUsage, "--output={}: a name ending in .csv or .h5",
           output.string());
    const std::string& checkpoint = line.required_option("checkpoint");
    const auto engine =
        build_engine(session, line.only_argument("INPUT.ini"), line.overrides);
    if (engine->options.eval.model == "each")
      fail(ExitCode::kUsage,
           "predict: eval.model = each: one model predicts: average or rank0");
    CheckpointModels found = load_models(*engine, checkpoint, session.log());

    const std::vector<int64_t> samples = engine->evaluation_indices();
    const std::vector<float> scores =
        predict_all(*engine, found.models[0].view());
    const int64_t classes = engine->dataset.train.spec.classes;
    std::vector<int32_t> labels, predicted;
    int64_t correct = 0;
    for (size_t n = 0; n < samples.size(); ++n) {
      const auto row = scores.begin() + static_cast<int64_t>(n) * classes;
      predicted.push_back(
          static_cast<int32_t>(std::max_element(row, row + classes) - row));
      labels.push_back(engine->evaluation_set().labels[samples[n]]);
      correct += predicted.back() == labels.back();
    }
    if (output.extension() == ".csv")
      write_file_atomically(
          output, as_csv(samples, labels, predicted, scores, classes));
    else
      write_h5(output, samples, labels, predicted, scores, classes);
    session.log().line(
        "{}: {} samples of the {} set, accuracy {:.4f}, model {}",
        output.string(), samples.size(), engine->options.eval.on,
        static_cast<double>(correct) / static_cast<double>(samples.size()),
        found.folder);
  });
  return ExitCode::kDone;
}

}  // namespace syncopate
