// Candidates against a count over all pairs of tokens, and the files of
// predictions.
#include "data/questions/answers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include <nlohmann/json.hpp>

#include "data_files.h"

namespace syncopate {
namespace {

using Json = nlohmann::json;

// One question of several windows over a context of one-letter to three-letter
// words, some of them equal.
QuestionSet random_set(std::mt19937& random) {
  QuestionSet set;
  std::vector<TextRange> words;
  std::string context;
  for (int i = 0; i < 24; ++i) {
    context += i % 3 == 0 ? "  " : " ";
    const auto begin = static_cast<int32_t>(context.size());
    context.append(1 + random() % 3, static_cast<char>('a' + random() % 3));
    words.push_back({begin, static_cast<int32_t>(context.size())});
  }
  set.contexts = {"unused", context};
  set.questions = {{.id = "q", .text = "?", .context = 1, .answers = {"x"}}};
  const int num_windows = 1 + static_cast<int>(random() % 3);
  for (int w = 0; w < num_windows; ++w) {
    const auto question_tokens = static_cast<int32_t>(1 + random() % 3);
    Window window;
    window.first_token = std::ssize(set.tokens);
    window.context_at = question_tokens + 2;
    const int32_t shown = 10;
    window.length = window.context_at + shown + 1;
    for (int32_t position = 0; position < window.length; ++position) {
      const int32_t at = position - window.context_at;
      const bool is_shown = at >= 0 && at < shown;
      set.tokens.push_back(7);
      set.words.push_back(is_shown ? words[static_cast<size_t>(5 * w + at)]
                                   : TextRange{});
      // Also set outside of the context, where it must have no effect.
      set.is_max_context.push_back(random() % 4 != 0);
    }
    set.windows.push_back(window);
  }
  set.first_window = {0, num_windows};
  return set;
}

std::vector<float> random_scores(const QuestionSet& set, std::mt19937& random) {
  std::vector<float> scores(2 * set.tokens.size());
  for (float& score : scores)  // many are equal
    score = static_cast<float>(random() % 7) * 0.5f - 1;
  return scores;
}

struct Pair {
  std::string text;
  float first, last;
};

// How many scores of a window come before this one.
int64_t rank_of(std::span<const float> scores, int64_t at, int64_t column) {
  int64_t rank = 0;
  const float mine = scores[static_cast<size_t>(2 * at + column)];
  for (int64_t i = 0; i < std::ssize(scores) / 2; ++i) {
    const float other = scores[static_cast<size_t>(2 * i + column)];
    rank += other > mine || (other == mine && i < at);
  }
  return rank;
}

std::vector<Pair> pairs_by_definition(const QuestionSet& set,
                                      std::span<const float> scores,
                                      const AnswerOptions& options) {
  struct Ranked {
    double sum;
    int64_t window, first_rank, last_rank;
    Pair pair;
  };
  std::vector<Ranked> all;
  for (int64_t w = 0; w < std::ssize(set.windows); ++w) {
    const Window& window = set.windows[static_cast<size_t>(w)];
    const auto of_window =
        scores.subspan(static_cast<size_t>(2 * window.first_token),
                       2 * static_cast<size_t>(window.length));
    for (int64_t first = 0; first < window.length; ++first) {
      for (int64_t last = first; last < window.length; ++last) {
        const int64_t first_rank = rank_of(of_window, first, 0);
        const int64_t last_rank = rank_of(of_window, last, 1);
        const auto at = static_cast<size_t>(window.first_token);
        const TextRange from = set.words[at + static_cast<size_t>(first)];
        const TextRange to = set.words[at + static_cast<size_t>(last)];
        if (first_rank >= options.n_best || last_rank >= options.n_best ||
            last - first >= options.max_answer_length || from.end == 0 ||
            to.end == 0 || !set.is_max_context[at + static_cast<size_t>(first)])
          continue;
        const Pair pair = {
            set.contexts[1].substr(static_cast<size_t>(from.begin),
                                   static_cast<size_t>(to.end - from.begin)),
            of_window[static_cast<size_t>(2 * first)],
            of_window[static_cast<size_t>(2 * last + 1)]};
        all.push_back({double{pair.first} + double{pair.last}, w, first_rank,
                       last_rank, pair});
      }
    }
  }
  std::sort(all.begin(), all.end(), [](const Ranked& a, const Ranked& b) {
    return std::tuple(-a.sum, a.window, a.first_rank, a.last_rank) <
           std::tuple(-b.sum, b.window, b.first_rank, b.last_rank);
  });
  std::set<std::string> seen;
  std::vector<Pair> kept;
  for (const Ranked& one : all)
    if (std::ssize(kept) < options.n_best && seen.insert(one.pair.text).second)
      kept.push_back(one.pair);
  return kept;
}

TEST(Answers, AreThoseOfTheDefinition) {
  std::mt19937 random(3);
  int64_t compared = 0, dropped = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const QuestionSet set = random_set(random);
    const auto scores = random_scores(set, random);
    const AnswerOptions options = {
        .n_best = 1 + static_cast<int64_t>(random() % 12),
        .max_answer_length = 1 + static_cast<int64_t>(random() % 5)};
    const auto expected = pairs_by_definition(set, scores, options);
    const auto answers = best_answers(set, 0, scores, options);
    if (expected.empty()) {
      ++dropped;
      ASSERT_EQ(answers.size(), 1u);
      EXPECT_EQ(answers[0].text, "empty");
      EXPECT_EQ(answers[0].probability, 1);
      continue;
    }
    ASSERT_EQ(answers.size(), expected.size());
    double total = 0;
    for (const Pair& pair : expected)
      total += std::exp(double{pair.first} + double{pair.last});
    for (size_t i = 0; i < answers.size(); ++i) {
      EXPECT_EQ(answers[i].text, expected[i].text);
      EXPECT_EQ(answers[i].first_logit, expected[i].first);
      EXPECT_EQ(answers[i].last_logit, expected[i].last);
      const double e =
          std::exp(double{expected[i].first} + double{expected[i].last});
      EXPECT_NEAR(answers[i].probability, e / total, 1e-14);  // rounding
      ++compared;
    }
  }
  EXPECT_GT(compared, 500);
  EXPECT_GT(dropped, 3);
}

TEST(Answers, KeepTheSpacesOfTheContext) {
  std::mt19937 random(4);
  const QuestionSet set = random_set(random);
  std::vector<float> scores(2 * set.tokens.size());
  const auto first = static_cast<size_t>(set.windows[0].context_at) + 2;
  scores[2 * first] = 100;
  scores[2 * (first + 3) + 1] = 100;
  QuestionSet all_max = set;
  all_max.is_max_context.assign(set.tokens.size(), true);
  const auto answers = best_answers(all_max, 0, scores, {});
  const auto begin = static_cast<size_t>(set.words[first].begin);
  const auto end = static_cast<size_t>(set.words[first + 3].end);
  EXPECT_EQ(answers[0].text, set.contexts[1].substr(begin, end - begin));
  EXPECT_NE(answers[0].text.find("  "), std::string::npos);
  EXPECT_GT(answers[0].probability, 0.99);
}

TEST(Answers, ScoresThatAreNotFiniteAreNoCandidates) {
  std::mt19937 random(5);
  QuestionSet set = random_set(random);
  set.is_max_context.assign(set.tokens.size(), true);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> scores(2 * set.tokens.size(), nan);
  EXPECT_EQ(best_answers(set, 0, scores, {})[0].text, "empty");
  scores.assign(scores.size(), -infinity);
  EXPECT_EQ(best_answers(set, 0, scores, {})[0].text, "empty");
  const auto at = static_cast<size_t>(set.windows[0].context_at);
  scores[0] = infinity;
  scores[2 * at] = 1;
  scores[2 * at + 1] = 2;
  const auto answers = best_answers(set, 0, scores, {});
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].first_logit, 1);
  EXPECT_EQ(answers[0].probability, 1);
}

std::vector<QuestionAnswers> nasty_answers() {
  return {{"z \"9\"",
           {{"back\\slash \"quote\"\n\t\x01", 0.75, 1.5f, -2.25f},
            {"second", 0.25, 0.1f, 0}}},
          {"a", {{"\u00fcml\u00e4ut \U0001f600", 1, 0, 0}}},
          {"m", {{"", 1, 3, 4}}}};
}

TEST(Answers, PredictionsComeBackAsWritten) {
  const ScratchFolder folder;
  const fs::path path = folder / "predictions.json";
  const auto answers = nasty_answers();
  write_predictions(path, answers);
  const auto predictions = read_predictions(path);
  ASSERT_EQ(predictions.size(), answers.size());
  for (const auto& [id, of_id] : answers)
    EXPECT_EQ(predictions.at(id), of_id[0].text);
  const std::string text = read_bytes(path);
  EXPECT_LT(text.find("z \\\"9\\\""), text.find("\"a\""));
  EXPECT_LT(text.find("\"a\""), text.find("\"m\""));
  write_predictions(path, {});
  EXPECT_TRUE(read_predictions(path).empty());
}

TEST(Answers, NBestHasEveryCandidate) {
  const ScratchFolder folder;
  const fs::path path = folder / "n_best.json";
  const auto answers = nasty_answers();
  write_n_best(path, answers);
  const auto json = nlohmann::ordered_json::parse(read_bytes(path));
  ASSERT_EQ(json.size(), answers.size());
  size_t question = 0;
  for (const auto& [id, list] : json.items()) {
    const QuestionAnswers& expected = answers[question++];
    EXPECT_EQ(id, expected.id);
    ASSERT_EQ(list.size(), expected.answers.size());
    for (size_t i = 0; i < list.size(); ++i) {
      EXPECT_EQ(list[i].at("text"), expected.answers[i].text);
      EXPECT_EQ(list[i].at("probability"), expected.answers[i].probability);
      EXPECT_EQ(list[i].at("start_logit").get<float>(),
                expected.answers[i].first_logit);
      EXPECT_EQ(list[i].at("end_logit").get<float>(),
                expected.answers[i].last_logit);
    }
  }
}

TEST(Answers, WhatIsWrittenIsAlwaysJson) {
  const ScratchFolder folder;
  const fs::path path = folder / "predictions.json";
  const std::vector<QuestionAnswers> answers = {
      {"same", {{"broken \xff byte", 1, 0, 0}}}, {"same", {{"two", 1, 0, 0}}}};
  write_predictions(path, answers);
  const auto predictions = read_predictions(path);
  ASSERT_EQ(predictions.size(), 1u);
  EXPECT_EQ(predictions.at("same"), "broken \ufffd byte");
  write_n_best(path, answers);
  EXPECT_EQ(Json::parse(read_bytes(path)).size(), 1u);
}

void expect_refused(const std::string& text, const std::string& line) {
  const ScratchFolder folder;
  const fs::path path = folder / "p.json";
  write_bytes(path, text);
  expect_error(ExitCode::kBadInput,
               path.string() + ": " + line +
                   ", expected {\"question id\": \"answer\", ...}",
               [&] { read_predictions(path); });
}

TEST(Answers, OtherJsonIsRefusedInOneLine) {
  expect_refused("", "not JSON at byte 1, after \"\"");
  expect_refused("{\"a\": \"b\"",
                 "\"a\": not JSON at byte 10, after \"\\\"b\\\"\"");
  expect_refused("{\"a\": \"\xff\"}",
                 "\"a\": not JSON at byte 8, after \"\\\"\ufffd\"");
  expect_refused("{} x", "not JSON at byte 4, after \"{} x\"");
  expect_refused("[\"a\"]", "found [");
  expect_refused("\"a\"", "found a text");
  expect_refused("7", "found a number");
  expect_refused("{\"a\": 1.5}", "\"a\": found a number");
  expect_refused("{\"a\": null}", "\"a\": found null");
  expect_refused("{\"a\": true}", "\"a\": found true or false");
  expect_refused("{\"a\": {}}", "\"a\": found {");
  expect_refused("{\"a\\n\": [\"b\"]}", "\"a\\n\": found [");
  expect_refused("{\"a\": \"b\", \"a\": \"c\"}",
                 "\"a\": found this id for the second time");
  EXPECT_THROW(read_predictions("/nowhere/p.json"), Error);
}

TEST(Answers, DeepNestingIsRefusedAtOnce) {
  expect_refused(std::string(1 << 20, '['), "found [");
  expect_refused("{\"a\": " + std::string(1 << 20, '{'), "\"a\": found {");
}

}  // namespace
}  // namespace syncopate
