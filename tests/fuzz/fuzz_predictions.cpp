// Files of predictions: what is accepted comes back when it is written, and
// normalising twice is normalising once.
#include "data/questions/answers.h"
#include "fuzz.h"

namespace syncopate {
namespace {

void use(const fs::path& path) {
  const auto predictions = read_predictions(path);
  std::vector<QuestionAnswers> answers;
  for (const auto& [id, text] : predictions) {
    const std::string normal = normalize_answer(text);
    if (normalize_answer(normal) != normal) fuzz::found("changed again");
    const double f1 = f1_score(text, std::span(&normal, 1));
    if (exact_match(text, std::span(&normal, 1)) != 1 ||
        f1 != (normal.empty() ? 0 : 1))
      fuzz::found("not its own answer");
    answers.push_back({id, {{.text = text, .probability = 1}}});
  }
  const fs::path again = fuzz::scratch_folder() / "again.json";
  write_predictions(again, answers);
  if (read_predictions(again) != predictions) fuzz::found("written otherwise");
}

}  // namespace
}  // namespace syncopate

void syncopate::fuzz::take(std::string_view input) {
  const fs::path path = scratch_file("p.json", input);
  accept_or_refuse(path.string(), [&] { use(path); });
}
