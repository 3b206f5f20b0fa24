// syncopate prepare squad|criteo INPUT.ini -o FILE.h5: writes the input of the
// network for use by other programs.
#include <numeric>

#include "app/commands.h"
#include "app/output_file.h"
#include "base/hdf5_file.h"
#include "base/text.h"
#include "config/config.h"
#include "data/clicks/click_set.h"
#include "data/kinds.h"
#include "data/questions/question_set.h"
#include "data/thread_pool.h"

namespace syncopate {
namespace {

template <typename T>
void write_list(Hdf5Writer& file,
                const std::string& name,
                const std::vector<T>& values,
                const std::string& description,
                int64_t width = 1) {
  std::vector<int64_t> dims = {std::ssize(values) / width};
  if (width > 1) dims.push_back(width);
  file.write<T>(name, dims, values);
  file.attribute(name, "description", description);
}

void write_questions(Hdf5Writer& file,
                     const std::string& part,
                     const QuestionSet& set) {
  std::vector<int64_t> all(static_cast<size_t>(set.samples()));
  std::iota(all.begin(), all.end(), int64_t{0});
  QuestionBatch batch;
  batch.fill(set, all);
  std::vector<int64_t> questions;
  for (const Window& window : set.windows) questions.push_back(window.question);
  write_list(file, part + "/tokens", batch.tokens,
             "token ids of all windows, end to end");
  write_list(file, part + "/segments", batch.segments,
             "of each token: 0 question, 1 context");
  write_list(file, part + "/offsets", batch.offsets,
             "where each window begins in tokens, and their end");
  write_list(file, part + "/labels", batch.labels,
             "positions of the answer's first and last token in the window; "
             "0 0: it does not hold the answer",
             2);
  write_list(file, part + "/question", questions,
             "number of the question that a window is of");
}

void write_clicks(Hdf5Writer& file,
                  const std::string& part,
                  const ClickSet& set,
                  const ClickSpec& spec) {
  std::vector<int64_t> all(static_cast<size_t>(set.samples()));
  std::iota(all.begin(), all.end(), int64_t{0});
  ClickBatch batch;
  batch.fill(set, spec, all);
  write_list(file, part + "/rows", batch.rows,
             "row of the tables for each field, field f behind field f - 1",
             spec.fields());
  write_list(file, part + "/labels", batch.labels, "1: clicked");
}

}  // namespace

void prepare_samples(Session& session, const CommandLine& line) {
  const ParsedInput input = parse_input(line.positional[1], line.overrides);
  refuse_errors(input);
  const DataOptions& options = input.options.data;
  const fs::path output =
      output_file(line.required_option("output"),
                  {line.positional[1], options.path, options.vocabulary});
  const bool wants_questions = line.positional[0] == "squad";
  const auto kinds = wants_questions ? kinds_of(Samples::kQuestions)
                                     : kinds_of(Samples::kClicks);
  if (std::count(kinds.begin(), kinds.end(), options.kind) == 0)
    fail(ExitCode::kUsage, "prepare {}: {}: data.kind = {}: expected {}",
         line.positional[0], line.positional[1], options.kind,
         join(kinds, " or "));
  std::string said;
  replace_file(output, [&](const fs::path& temporary) {
    Hdf5Writer file(temporary);
    if (wants_questions) {
      const QuestionData data = load_questions(options, usable_cores());
      write_questions(file, "train", data.train);
      write_questions(file, "test", data.test);
      file.attribute("/", "vocabulary", data.vocabulary);
      file.attribute("/", "source", data.source);
      said = fmt::format("{} training and {} test windows",
                         data.train.samples(), data.test.samples());
    } else {
      const ClickData data = load_clicks(options);
      write_clicks(file, "train", *data.train, data.spec);
      write_clicks(file, "test", *data.test, data.spec);
      write_list(file, "field_rows", data.spec.rows, "rows of each field");
      file.attribute("/", "source", data.source);
      said = fmt::format("{} training and {} test records",
                         data.train->samples(), data.test->samples());
    }
    file.close();
  });
  session.log().line("{}: {}", output.string(), said);
}

}  // namespace syncopate
