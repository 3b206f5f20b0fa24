// From the scores of windows to answers, and how right they are: the rules of
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
  int64_t n_best = 20;             // candidates kept of a question
  int64_t max_answer_length = 30;  // tokens
};

struct Answer {
  std::string text;
  double probability = 0;  // softmax over the question's candidates
  float first_logit = 0, last_logit = 0;
};

// The answers to one question, best first, at least one. `scores`: (T, 2)
// logits of first and last for the tokens of all windows of the question, end
// to end. Candidates begin and end in the context, the first token is one of
// its maximum context, and at most options.max_answer_length long; equal texts
// are kept once. Scores that are not finite make none; without a candidate the
// answer is "empty", as run_squad has it.
std::vector<Answer> best_answers(const QuestionSet& set,
                                 int64_t question,
                                 std::span<const float> scores,
                                 const AnswerOptions& options);

// Lower case, without punctuation and articles, single spaces: as the
// official evaluation script normalises.
std::string normalize_answer(const std::string& text);
// 1 or 0, and in [0, 1]: of the best of the right answers.
double exact_match(const std::string& prediction,
                   std::span<const std::string> right);
double f1_score(const std::string& prediction,
                std::span<const std::string> right);

struct SquadScore {
  double exact_match = 0, f1 = 0;  // percent
  int64_t questions = 0;
  int64_t unanswered = 0;  // count as wrong
};
// Predictions by question id. A prediction to no question of the set is ignored
// as the official script ignores it.
SquadScore score_predictions(
    const QuestionSet& set,
    const std::map<std::string, std::string>& predictions);
// {"id": "answer", ...}. Error(kBadInput) where it is anything else.
std::map<std::string, std::string> read_predictions(const fs::path& file);

// predictions.json, and its n-best companion as run_squad writes it: for each
// id a list of {text, probability, start_logit, end_logit}. Committed
// atomically.
struct QuestionAnswers {
  std::string id;
  std::vector<Answer> answers;  // best first
};
void write_predictions(const fs::path& file,
                       std::span<const QuestionAnswers> answers);
void write_n_best(const fs::path& file,
                  std::span<const QuestionAnswers> answers);

}  // namespace syncopate
