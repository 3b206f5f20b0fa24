// Made questions: what they are made of, and that a rule answers them.
#include <gtest/gtest.h>

#include <set>

#include "data/questions/question_set.h"
#include "data/questions/squad.h"
#include "support/expect_error.h"

namespace syncopate {
namespace {

DataOptions options() {
  DataOptions options;
  options.kind = "synthetic_squad";
  options.samples = 300;
  options.test_samples = 40;
  return options;
}

TEST(SyntheticSquad, TheWordsBehindTheKeyAreTheAnswer) {
  const QuestionData data = load_questions(options(), 2);
  EXPECT_EQ(std::ssize(data.train.questions), 300);
  EXPECT_EQ(std::ssize(data.test.questions), 40);
  EXPECT_EQ(data.left_out, 0);
  std::set<int64_t> lengths, asked, values;
  for (const Question& question : data.train.questions) {
    const std::string& context =
        data.train.contexts[static_cast<size_t>(question.context)];
    ASSERT_TRUE(question.text.ends_with("?"));
    const size_t last = question.text.rfind(' ') + 1;
    const std::string key =
        question.text.substr(last, question.text.size() - last - 1);
    const size_t at = (" " + context).find(" " + key + " ");
    ASSERT_NE(at, std::string::npos) << context;
    EXPECT_EQ((" " + context).find(" " + key + " ", at + 1), std::string::npos);
    const size_t begin = at + key.size() + 1;
    const std::string answer =
        context.substr(begin, context.find('.', begin) - begin);
    ASSERT_EQ(question.answers.size(), 1u);
    EXPECT_EQ(question.answers[0], answer);
    lengths.insert(std::ssize(squad_words(context)));
    asked.insert(std::ssize(squad_words(question.text)));
    values.insert(std::ssize(squad_words(answer)));
  }
  EXPECT_EQ(values, (std::set<int64_t>{1, 2, 3}));
  EXPECT_EQ(asked, (std::set<int64_t>{5, 6, 7, 8, 9}));
  EXPECT_GT(lengths.size(), 20u);
}

TEST(SyntheticSquad, EveryWordIsKnownAndEveryLabelSpellsTheAnswer) {
  const QuestionData data = load_questions(options(), 1);
  const WordPiece tokenizer("made", synthetic_squad_vocabulary(),
                            LetterCase::kLower);
  EXPECT_EQ(data.vocabulary, tokenizer.size());
  EXPECT_GT(data.vocabulary, 200);
  EXPECT_LT(data.vocabulary, 500);
  for (const int32_t token : data.train.tokens) {
    EXPECT_LT(token, data.vocabulary);
    EXPECT_NE(token, tokenizer.unknown());
  }
  for (const Window& window : data.train.windows) {
    const Question& question =
        data.train.questions[static_cast<size_t>(window.question)];
    ASSERT_GT(window.answer_first, 0);  // these contexts fit one window
    std::string spelt;
    for (int32_t at = window.answer_first; at <= window.answer_last; ++at) {
      const std::string piece = tokenizer.piece(
          data.train.tokens[static_cast<size_t>(window.first_token + at)]);
      const bool continues = piece.starts_with("##");
      if (!continues && !spelt.empty()) spelt += ' ';
      spelt += continues ? piece.substr(2) : piece;
    }
    EXPECT_EQ(spelt, question.answers[0]);
  }
}

TEST(SyntheticSquad, TheSeedDecidesAndTheSetsDiffer) {
  DataOptions wanted = options();
  const QuestionData one = load_questions(wanted, 1);
  const QuestionData again = load_questions(wanted, 3);
  EXPECT_EQ(one.train.tokens, again.train.tokens);
  EXPECT_EQ(one.train.contexts, again.train.contexts);
  EXPECT_EQ(one.digest, again.digest);
  EXPECT_NE(one.train.contexts[0], one.test.contexts[0]);
  // More samples are the same ones and more.
  wanted.samples = 301;
  const QuestionData more = load_questions(wanted, 1);
  EXPECT_EQ(more.train.contexts[299], one.train.contexts[299]);
  EXPECT_NE(more.digest, one.digest);
  wanted = options();
  wanted.synthetic_seed = 8;
  const QuestionData other = load_questions(wanted, 1);
  EXPECT_NE(other.train.contexts[0], one.train.contexts[0]);
  EXPECT_NE(other.digest, one.digest);
}

TEST(SyntheticSquad, ContextsAreAsLongAsAskedAndMakeSeveralWindows) {
  DataOptions wanted = options();
  wanted.context_words = 300;
  const QuestionData data = load_questions(wanted, 1);
  double words = 0;
  for (const std::string& context : data.train.contexts)
    words += static_cast<double>(squad_words(context).size());
  EXPECT_NEAR(words / 300, 300, 15);
  EXPECT_GT(data.train.samples(), 300);
  EXPECT_EQ(data.train.longest(), 384);
  wanted.context_words = 8;
  EXPECT_EQ(load_questions(wanted, 1).train.samples(), 300);
}

TEST(SyntheticSquad, RefusesImpossibleSizes) {
  const auto expect_refused = [](const DataOptions& wanted,
                                 const std::string& line) {
    expect_error(ExitCode::kBadInput, line, [&] { load_questions(wanted, 1); });
  };
  DataOptions wanted = options();
  wanted.context_words = 7;
  expect_refused(wanted, "data.context_words: 7, expected 8 to 1000000");
  wanted = options();
  wanted.test_samples = 0;
  expect_refused(wanted,
                 "data.samples and data.test_samples: 0, expected at least 1");
}

}  // namespace
}  // namespace syncopate
