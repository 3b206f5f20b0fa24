// Selects answers as BERT's run_squad does (compute_predictions_logits), with
// two differences. There is no padding whose scores could rank among a window's
// best. And a piece always yields the whole word that QuestionSet::words has
// for it, whereas run_squad re-aligns the text of the pieces with the context
// (get_final_text), which yields a part of a word, or all words between two
// spaces if the alignment fails.
#include "data/questions/answers.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <unordered_set>

#include "base/check.h"

namespace syncopate {
namespace {

struct Candidate {
  TextRange range;  // in the context
  float first_logit, last_logit;
  double sum() const { return double{first_logit} + double{last_logit}; }
};

// Positions of the `count` largest finite scores of a window in descending
// order; ties go to the first position.
std::vector<int64_t> best_positions(std::span<const float> scores,
                                    int64_t column,
                                    int64_t count) {
  const auto score = [&](int64_t position) {
    return scores[static_cast<size_t>(2 * position + column)];
  };
  std::vector<int64_t> positions(scores.size() / 2);
  std::iota(positions.begin(), positions.end(), 0);
  std::erase_if(positions, [&](int64_t position) {
    return !std::isfinite(score(position));
  });
  const auto kept = std::min(std::ssize(positions), std::ptrdiff_t{count});
  std::partial_sort(positions.begin(), positions.begin() + kept,
                    positions.end(), [&](int64_t a, int64_t b) {
                      return score(a) != score(b) ? score(a) > score(b) : a < b;
                    });
  positions.resize(static_cast<size_t>(kept));
  return positions;
}

// Adds the candidates of one window, ordered by first, then by last.
void add_candidates(const QuestionSet& set,
                    const Window& window,
                    std::span<const float> scores,
                    const AnswerOptions& options,
                    std::vector<Candidate>& candidates) {
  const auto lasts = best_positions(scores, 1, options.n_best);
  // The context ends before the last [SEP].
  const auto is_context = [&](int64_t position) {
    return position >= window.context_at && position < window.length - 1;
  };
  const auto place = [&](int64_t position) {
    return static_cast<size_t>(window.first_token + position);
  };
  for (const int64_t first : best_positions(scores, 0, options.n_best)) {
    if (!is_context(first) || !set.is_max_context[place(first)]) continue;
    for (const int64_t last : lasts) {
      if (!is_context(last) || last < first ||
          last - first + 1 > options.max_answer_length)
        continue;
      candidates.push_back(
          {.range = {.begin = set.words[place(first)].begin,
                     .end = set.words[place(last)].end},
           .first_logit = scores[static_cast<size_t>(2 * first)],
           .last_logit = scores[static_cast<size_t>(2 * last + 1)]});
    }
  }
}

// softmax of first_logit + last_logit
void set_probabilities(std::vector<Answer>& answers) {
  const auto sum_of = [](const Answer& answer) {
    return double{answer.first_logit} + double{answer.last_logit};
  };
  const double greatest = sum_of(answers.front());  // the best comes first
  double total = 0;
  for (Answer& answer : answers)
    total += answer.probability = std::exp(sum_of(answer) - greatest);
  for (Answer& answer : answers) answer.probability /= total;
}

}  // namespace

std::vector<Answer> best_answers(const QuestionSet& set,
                                 int64_t question,
                                 std::span<const float> scores,
                                 const AnswerOptions& options) {
  std::vector<Candidate> candidates;
  for (const Window& window : set.windows_of(question)) {
    const auto num_scores = 2 * static_cast<size_t>(window.length);
    CHECK(scores.size() >= num_scores);
    add_candidates(set, window, scores.first(num_scores), options, candidates);
    scores = scores.subspan(num_scores);
  }
  CHECK(scores.empty());
  std::ranges::stable_sort(candidates, std::greater{}, &Candidate::sum);

  const Question& asked = set.questions[static_cast<size_t>(question)];
  const std::string& context = set.contexts[static_cast<size_t>(asked.context)];
  std::vector<Answer> answers;
  std::unordered_set<std::string> seen;
  for (const Candidate& candidate : candidates) {
    if (std::ssize(answers) >= options.n_best) break;
    const auto [begin, end] = candidate.range;
    CHECK(begin >= 0 && begin <= end && end <= std::ssize(context));
    std::string text = context.substr(static_cast<size_t>(begin),
                                      static_cast<size_t>(end - begin));
    if (!seen.insert(text).second) continue;
    answers.push_back({.text = std::move(text),
                       .first_logit = candidate.first_logit,
                       .last_logit = candidate.last_logit});
  }
  // As in run_squad.
  if (answers.empty()) answers.push_back({.text = "empty"});
  set_probabilities(answers);
  return answers;
}

}  // namespace syncopate
