// Files of SQuAD, through to windows and answers.
#include <algorithm>

#include "data/questions/answers.h"
#include "data/questions/squad.h"
#include "fuzz.h"

namespace syncopate {
namespace {

void check_windows(const QuestionSet& set, const DataOptions& options) {
  for (const Window& window : set.windows) {
    if (window.length > options.max_length || window.answer_first < 0 ||
        window.answer_last < window.answer_first ||
        window.answer_last >= window.length ||
        window.first_token + window.length > std::ssize(set.tokens))
      fuzz::found("a window outside its tokens");
    const Question& question =
        set.questions.at(static_cast<size_t>(window.question));
    const auto bytes =
        std::ssize(set.contexts.at(static_cast<size_t>(question.context)));
    for (int64_t i = 0; i < window.length; ++i) {
      const TextRange word =
          set.words.at(static_cast<size_t>(window.first_token + i));
      if (word.begin < 0 || word.end < word.begin || word.end > bytes)
        fuzz::found("a word outside its context");
    }
  }
}

void use(std::string_view json, SquadUse as) {
  static const WordPiece tokenizer("words", synthetic_squad_vocabulary(),
                                   LetterCase::kLower);
  DataOptions options;
  options.max_length = 32;
  options.stride = 8;
  options.max_question = 8;
  const SquadWindows windows =
      make_windows(parse_squad("file", json), tokenizer, options, as, 1);
  const QuestionSet& set = windows.set;
  check_windows(set, options);
  std::map<std::string, std::string> predictions;
  for (int64_t q = 0; q < std::ssize(set.questions); ++q) {
    std::vector<float> scores;
    for (const Window& window : set.windows_of(q)) {
      scores.resize(scores.size() + 2 * static_cast<size_t>(window.length));
    }
    const auto answers = best_answers(set, q, scores, {});
    predictions[set.questions[static_cast<size_t>(q)].id] = answers[0].text;
  }
  const SquadScore score = score_predictions(set, predictions);
  if (score.unanswered != 0 || !(score.f1 >= 0 && score.f1 <= 100))
    fuzz::found("a score outside percent");
}

}  // namespace
}  // namespace syncopate

void syncopate::fuzz::take(std::string_view input) {
  for (const SquadUse as : {SquadUse::kTrain, SquadUse::kTest})
    accept_or_refuse("file: ", [&] { use(input, as); });
}
