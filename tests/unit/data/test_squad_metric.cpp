// The metric of SQuAD 1.1 against values recorded from its published rules
// (tests/reference/make_squad_metric_fixtures.py).
#include <gtest/gtest.h>
#include <utf8proc.h>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "data/questions/answers.h"
#include "support/fixtures.h"

namespace syncopate {
namespace {

using Json = nlohmann::json;

const Json& fixture() {
  static const Json json =
      Json::parse(read_file(fixture_path("squad_metric.json")));
  return json;
}

std::string utf8(uint32_t letter) {
  utf8proc_uint8_t bytes[4];
  const auto count =
      utf8proc_encode_char(static_cast<utf8proc_int32_t>(letter), bytes);
  return {reinterpret_cast<const char*>(bytes), static_cast<size_t>(count)};
}

// Calls `use` with every letter of a recorded list of ranges, rising.
template <typename Use>
void for_each_letter(const Json& ranges, const Use& use) {
  for (size_t i = 0; i < ranges.size(); i += 2)
    for (uint32_t letter = ranges[i]; letter <= ranges[i + 1]; ++letter)
      use(letter);
}

// Probes every code point of Python's Unicode version.
template <typename Probe>
void expect_letters(const std::string& name, const Probe& probe) {
  const Json& letters = fixture()["letters"];
  std::vector<bool> expected(0x110000);
  for_each_letter(letters[name], [&](uint32_t c) { expected[c] = true; });
  int64_t differing = 0, of_kind = 0;
  for_each_letter(letters["known"], [&](uint32_t c) {
    of_kind += expected[c];
    if (probe(utf8(c)) != expected[c] && ++differing < 10)
      ADD_FAILURE() << fmt::format("{}: U+{:04X} expected {}", name, c,
                                   bool{expected[c]});
  });
  EXPECT_EQ(differing, 0);
  EXPECT_GT(of_kind, 0);
}

bool has_final_sigma(const std::string& text) {
  return normalize_answer(text).find("\u03c2") != std::string::npos;
}

TEST(SquadMetric, EveryLetterIsOfItsKind) {
  expect_letters("word", [](const std::string& c) {
    return normalize_answer("a" + c).starts_with("a");
  });
  expect_letters("space", [](const std::string& c) {
    return normalize_answer("x" + c + "y") == "x y";
  });
  expect_letters("dropped", [](const std::string& c) {
    return normalize_answer("x" + c + "y") == "xy";
  });
}

TEST(SquadMetric, SigmaIsFinalBehindACasedLetterAndBeforeNone) {
  expect_letters("cased", [](const std::string& c) {
    return normalize_answer("1" + c + "\u03a3").ends_with("\u03c2");
  });
  expect_letters("passed", [](const std::string& c) {
    return normalize_answer("x" + c + "\u03a3").ends_with("\u03c2");
  });
  expect_letters("ended", [](const std::string& c) {
    return has_final_sigma("x\u03a3" + c);
  });
}

TEST(SquadMetric, LowerCaseOfEveryLetter) {
  const Json& letters = fixture()["letters"];
  const auto lower = letters["lower"].get<std::map<std::string, std::string>>();
  EXPECT_GT(lower.size(), 1000u);
  int64_t differing = 0;
  for_each_letter(letters["known"], [&](uint32_t code) {
    const std::string c = utf8(code), probe = "1" + c + "1";
    const auto found = lower.find(c);
    std::string expected =
        "1" + (found == lower.end() ? c : found->second) + "1";
    // Spaces and punctuation are for another test.
    if (normalize_answer(probe).size() < 3) return;
    if (normalize_answer(probe).find(' ') != std::string::npos) return;
    if (normalize_answer(probe) != expected && ++differing < 10)
      ADD_FAILURE() << fmt::format("U+{:04X}: {}", code,
                                   normalize_answer(probe));
  });
  EXPECT_EQ(differing, 0);
}

TEST(SquadMetric, TextsNormaliseAsRecorded) {
  EXPECT_GT(fixture()["texts"].size(), 300u);
  for (const Json& pair : fixture()["texts"])
    EXPECT_EQ(normalize_answer(pair[0]), pair[1].get<std::string>()) << pair;
}

TEST(SquadMetric, BytesThatAreNotUtf8Stay) {
  EXPECT_EQ(normalize_answer("The \xff\xfe, B\xc3"), "\xff\xfe b\xc3");
  EXPECT_EQ(normalize_answer("a\xff the"), "\xff");
}

TEST(SquadMetric, AnswersScoreAsRecorded) {
  int64_t partly = 0;
  for (const Json& question : fixture()["questions"]) {
    if (question["prediction"].is_null()) continue;
    const auto right = question["right"].get<std::vector<std::string>>();
    const std::string prediction = question["prediction"];
    const double f1 = question["f1"];
    EXPECT_EQ(exact_match(prediction, right), question["exact"]) << question;
    EXPECT_EQ(f1_score(prediction, right), f1) << question;  // to the bit
    partly += f1 > 0 && f1 < 1;
  }
  EXPECT_GT(partly, 20);
}

TEST(SquadMetric, ScoreOfAllQuestionsToTheLastBit) {
  QuestionSet set;
  std::map<std::string, std::string> predictions = {{"of no question", "x"}};
  int64_t unanswered = 0;
  for (const Json& question : fixture()["questions"]) {
    // The ids are not sorted: sums follow the order of the questions.
    const auto number = std::to_string(7919 * set.questions.size() % 1000);
    set.questions.push_back({.id = number,
                             .text = "?",
                             .context = 0,
                             .answers = question["right"]});
    if (question["prediction"].is_null()) {
      ++unanswered;
    } else {
      predictions[number] = question["prediction"];
    }
  }
  const SquadScore score = score_predictions(set, predictions);
  EXPECT_EQ(score.exact_match, fixture()["score"]["exact"].get<double>());
  EXPECT_EQ(score.f1, fixture()["score"]["f1"].get<double>());
  EXPECT_EQ(score.questions, std::ssize(set.questions));
  EXPECT_EQ(score.unanswered, unanswered);
  EXPECT_GT(unanswered, 3);
  EXPECT_EQ(score_predictions({}, predictions).f1, 0);
}

}  // namespace
}  // namespace syncopate
