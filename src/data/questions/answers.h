// Selects answers by the scores of windows and evaluates them, by the rules of
// the SQuAD 1.1 evaluation and of BERT's run_squad.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/questions/question_set.h"

namespace syncopate {

struct AnswerOptions {
  int64_t n_best = 20;             // candidates kept per question
  int64_t max_answer_length = 30;  // tokens
};

struct Answer {
  std::string text;
  double probability = 0;  // softmax over the question's candidates
  float first_logit = 0, last_logit = 0;
};

// The answers to one question, best first; at least one. `scores` (T, 2) holds
// the logits of first and last for the tokens of all windows of the question,
// end to end. A candidate begins and ends in the context, begins at a token for
// which its window has maximum context, and has at most
// options.max_answer_length tokens. Equal texts are kept once, and scores that
// are not finite are ignored. Without a candidate the answer is "empty", as in
// run_squad.
std::vector<Answer> best_answers(const QuestionSet& set,
                                 int64_t question,
                                 std::span<const float> scores,
                                 const AnswerOptions& options);

// Converts to lower case, removes punctuation and articles and collapses white
// space, as the official evaluation script does.
std::string normalize_answer(const std::string& text);
// Scores against the best-matching right answer: 1 or 0, and in [0, 1].
double exact_match(const std::string& prediction,
                   std::span<const std::string> right);
double f1_score(const std::string& prediction,
                std::span<const std::string> right);

struct SquadScore {
  double exact_match = 0, f1 = 0;  // percent
  int64_t questions = 0;
  int64_t unanswered = 0;  // counted as wrong
};
// `predictions` by question id. Ids that are not in the set are ignored, as in
// the official script.
SquadScore score_predictions(
    const QuestionSet& set,
    const std::map<std::string, std::string>& predictions);
// Reads {"id": "answer", ...}; anything else is Error(kBadInput).
std::map<std::string, std::string> read_predictions(const fs::path& file);

// Write predictions.json and its n-best companion in the format of run_squad,
// with a list of {text, probability, start_logit, end_logit} per id. Files are
// replaced atomically.
struct QuestionAnswers {
  std::string id;
  std::vector<Answer> answers;  // best first
};
void write_predictions(const fs::path& file,
                       std::span<const QuestionAnswers> answers);
void write_n_best(const fs::path& file,
                  std::span<const QuestionAnswers> answers);

}  // namespace syncopate
