// Windows, labels and maximum context against those that run_squad's own
// preparation makes of the same file; batches; what load_questions refuses.
#include "data/questions/question_set.h"

#include <map>
#include <sstream>

#include "data/questions/squad.h"
#include "data_files.h"
#include "support/fixtures.h"

namespace syncopate {
namespace {

// The recorded file as both sets.
class Questions : public ::testing::Test {
 protected:
  void SetUp() override {
    squad_ = read_file(fixture_path("squad.json"));
    write_bytes(folder_ / "train-v1.1.json", squad_);
    write_gz(folder_ / "dev-v1.1.json.gz", squad_);
    options_ = options_for("squad", folder_.path());
    options_.vocabulary = fixture_path("tokenizer_vocabulary.txt");
    options_.max_length = 64;
    options_.stride = 24;
    options_.max_question = 20;
  }
  SquadWindows windows_of(const std::string& file, SquadUse use) const {
    const WordPiece tokenizer(fs::path(options_.vocabulary),
                              LetterCase::kLower);
    return make_windows(parse_squad("FILE", file), tokenizer, options_, use, 1);
  }
  void expect_refused(const std::string& line,
                      ExitCode code = ExitCode::kBadInput) {
    expect_error(code, line, [&] { load_questions(options_, 1); });
  }
  ScratchFolder folder_;
  std::string squad_;
  DataOptions options_;
};

struct Recorded {
  int32_t context_at = 0, first = 0, last = 0;
  std::vector<int32_t> ids;
  std::string max_context;
};

// By options and question; an empty list if the question was left out.
using Features = std::map<std::string, std::vector<Recorded>>;

Features recorded_features() {
  Features features;
  std::istringstream lines(read_file(fixture_path("squad_features.txt")));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind, length, stride, question, id, next;
    words >> kind >> length >> stride >> question >> id >> next;
    auto& windows = features[kind + " " + length + " " + stride + " " +
                             question + " " + id];
    if (next == "left_out") continue;
    Recorded& window = windows.emplace_back();
    std::string ids;
    window.context_at = std::stoi(next);
    words >> window.first >> window.last >> ids >> window.max_context;
    std::istringstream numbers(ids);
    for (std::string number; std::getline(numbers, number, ',');)
      window.ids.push_back(std::stoi(number));
  }
  return features;
}

void expect_equal(const QuestionSet& set,
                  const Window& window,
                  const Recorded& recorded) {
  EXPECT_EQ(window.context_at, recorded.context_at);
  EXPECT_EQ(window.answer_first, recorded.first);
  EXPECT_EQ(window.answer_last, recorded.last);
  const auto begin = set.tokens.begin() + window.first_token;
  EXPECT_EQ(std::vector<int32_t>(begin, begin + window.length), recorded.ids);
  std::string max_context;
  for (int64_t i = 0; i < window.length; ++i)
    max_context +=
        set.is_max_context[static_cast<size_t>(window.first_token + i)] ? '1'
                                                                        : '0';
  EXPECT_EQ(max_context, recorded.max_context);
}

TEST_F(Questions, AreTheWindowsOfRunSquad) {
  const Features features = recorded_features();
  int64_t windows = 0, questions = 0, left_out = 0;
  for (const auto& [kind, length, stride, question] :
       {std::tuple{"lower", 200, 60, 64}, std::tuple{"lower", 64, 24, 20},
        std::tuple{"as_written", 48, 30, 9}}) {
    options_.lower_case = kind == std::string("lower");
    options_.max_length = length;
    options_.stride = stride;
    options_.max_question = question;
    const QuestionData data = load_questions(options_, 2);
    left_out += data.left_out;
    for (int64_t q = 0; q < std::ssize(data.train.questions); ++q) {
      const std::string id = data.train.questions[static_cast<size_t>(q)].id;
      SCOPED_TRACE(id);
      const auto found = features.find(
          fmt::format("{} {} {} {} {}", kind, length, stride, question, id));
      ASSERT_NE(found, features.end());
      const auto mine = data.train.windows_of(q);
      ASSERT_EQ(mine.size(), found->second.size());
      for (size_t w = 0; w < mine.size(); ++w, ++windows)
        expect_equal(data.train, mine[w], found->second[w]);
      ++questions;
    }
  }
  EXPECT_EQ(questions + left_out, std::ssize(features));
  EXPECT_EQ(left_out,
            std::count_if(features.begin(), features.end(),
                          [](const auto& f) { return f.second.empty(); }));
  EXPECT_GT(left_out, 10);
  EXPECT_GT(windows, 200);
}

TEST_F(Questions, DoNotDependOnThreads) {
  const QuestionData one = load_questions(options_, 1);
  for (const int threads : {2, 5}) {
    const QuestionData more = load_questions(options_, threads);
    EXPECT_EQ(one.train.tokens, more.train.tokens);
    EXPECT_EQ(one.train.first_window, more.train.first_window);
    EXPECT_EQ(one.train.is_max_context, more.train.is_max_context);
    EXPECT_EQ(one.digest, more.digest);
    EXPECT_EQ(one.left_out, more.left_out);
  }
}

TEST_F(Questions, TheTestSetKeepsAllOfThem) {
  const QuestionData data = load_questions(options_, 1);
  EXPECT_EQ(std::ssize(data.test.questions),
            std::ssize(data.train.questions) + data.left_out);
  EXPECT_EQ(std::ssize(data.test.first_window),
            std::ssize(data.test.questions) + 1);
  EXPECT_EQ(data.test.first_window.back(), data.test.samples());
  EXPECT_EQ(
      data.vocabulary,
      WordPiece(fs::path(options_.vocabulary), LetterCase::kLower).size());
  EXPECT_EQ(data.source, "squad " + options_.path);
}

std::string without_spaces(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  return text;
}

TEST_F(Questions, LabelsAndWordsAreBytesOfTheAnswer) {
  const QuestionData data = load_questions(options_, 1);
  int64_t held = 0, exact = 0;
  for (const Window& window : data.train.windows) {
    const Question& question =
        data.train.questions[static_cast<size_t>(window.question)];
    const std::string& context =
        data.train.contexts[static_cast<size_t>(question.context)];
    const auto word = [&](int32_t at) {
      return data.train.words[static_cast<size_t>(window.first_token + at)];
    };
    for (const int32_t outside : {0, window.context_at - 1, window.length - 1})
      EXPECT_EQ(word(outside).begin, word(outside).end);
    for (int32_t at = window.context_at; at < window.length - 1; ++at) {
      EXPECT_LT(word(at).begin, word(at).end);
      EXPECT_LE(word(at).end, std::ssize(context));
      EXPECT_LE(word(at - (at > window.context_at)).begin, word(at).begin);
    }
    if (window.answer_first == 0) continue;
    ++held;
    const int32_t begin = word(window.answer_first).begin;
    const int32_t end = word(window.answer_last).end;
    const std::string text = context.substr(static_cast<size_t>(begin),
                                            static_cast<size_t>(end - begin));
    // Some answers begin or end within a word, or have other spaces.
    EXPECT_NE(without_spaces(text).find(without_spaces(question.answers[0])),
              std::string::npos)
        << text << " | " << question.answers[0];
    exact += text == question.answers[0];
  }
  EXPECT_GT(held, 20);
  EXPECT_GT(exact, 0);
}

TEST_F(Questions, ATestQuestionIsLabelledByTheFirstAnswerThatStands) {
  const std::string file = R"({"data": [{"paragraphs": [{
      "context": "the river of the city", "qas": [
      {"id": "x", "question": "what", "answers": [
        {"text": "york", "answer_start": 4},
        {"text": "city", "answer_start": 17},
        {"text": "river", "answer_start": 4}]},
      {"id": "y", "question": "what", "answers": [
        {"text": "york", "answer_start": 4}]}]}]}]})";
  const SquadWindows test = windows_of(file, SquadUse::kTest);
  ASSERT_EQ(test.set.samples(), 2);
  EXPECT_EQ(test.left_out, 0);
  // [CLS] what [SEP] the river of the city [SEP]
  EXPECT_EQ(test.set.windows[0].answer_first, 7);
  EXPECT_EQ(test.set.windows[0].answer_last, 7);
  EXPECT_EQ(test.set.windows[1].answer_first, 0);
  const SquadWindows train = windows_of(file, SquadUse::kTrain);
  EXPECT_EQ(train.left_out, 2);
  EXPECT_EQ(train.set.samples(), 0);
  EXPECT_EQ(train.set.mean_length(), 0);
}

TEST_F(Questions, AnEmptyContextHasNoWindows) {
  const std::string file = R"({"data": [{"paragraphs": [
      {"context": " ", "qas": [{"id": "x", "question": "what", "answers": [
        {"text": "a", "answer_start": 0}]}]},
      {"context": "a b", "qas": [{"id": "y", "question": "what", "answers": [
        {"text": "b", "answer_start": 2}]}]}]}]})";
  const SquadWindows made = windows_of(file, SquadUse::kTest);
  EXPECT_EQ(made.set.first_window, (std::vector<int64_t>{0, 0, 1}));
  EXPECT_TRUE(made.set.windows_of(0).empty());
  EXPECT_EQ(made.set.windows_of(1).size(), 1u);
  EXPECT_EQ(made.set.windows[0].question, 1);
}

TEST_F(Questions, TheDigestTellsWhatSamplesAreMadeOf) {
  const std::string digest = load_questions(options_, 1).digest;
  EXPECT_EQ(digest.size(), 32u);
  std::vector<std::string> digests = {digest};
  const auto add = [&](const auto& change) {
    DataOptions other = options_;
    change(other);
    digests.push_back(load_questions(other, 1).digest);
  };
  add([](DataOptions& o) { o.max_length = 65; });
  add([](DataOptions& o) { o.stride = 25; });
  add([](DataOptions& o) { o.max_question = 19; });
  add([](DataOptions& o) { o.lower_case = false; });
  const std::string longer = folder_ / "longer.txt";
  write_bytes(longer, read_file(options_.vocabulary) + "longer\n");
  add([&](DataOptions& o) { o.vocabulary = longer; });
  std::string squad = squad_;
  squad.replace(squad.find("Where?"), 6, "When??");
  write_bytes(folder_ / "train-v1.1.json", squad);
  add([](DataOptions&) {});
  std::sort(digests.begin(), digests.end());
  EXPECT_EQ(std::unique(digests.begin(), digests.end()), digests.end());
  // Packed or not, with other order of batches: the same samples.
  write_bytes(folder_ / "train-v1.1.json", squad_);
  write_bytes(folder_ / "dev-v1.1.json", squad_);
  options_.bucketing = Bucketing::kNone;
  EXPECT_EQ(load_questions(options_, 1).digest, digest);
}

TEST_F(Questions, ABatchIsItsWindowsEndToEnd) {
  const QuestionSet set = load_questions(options_, 1).train;
  QuestionBatch batch;
  batch.fill(set, std::vector<int64_t>{5});
  const std::vector<int64_t> samples = {3, 0, 3, 7};
  batch.fill(set, samples);  // replaces the previous contents
  const Batch view = batch.view();
  EXPECT_EQ(view.samples, 4);
  EXPECT_EQ(view.labels.shape, (Shape{4, 2}));
  EXPECT_EQ(view.offsets.shape, (Shape{5}));
  EXPECT_EQ(view.images.data, nullptr);
  int64_t at = 0, longest = 0;
  for (size_t n = 0; n < samples.size(); ++n) {
    const Window& window = set.windows[static_cast<size_t>(samples[n])];
    EXPECT_EQ(batch.offsets[n], at);
    EXPECT_EQ(batch.labels[2 * n], window.answer_first);
    EXPECT_EQ(batch.labels[2 * n + 1], window.answer_last);
    for (int32_t i = 0; i < window.length; ++i, ++at) {
      const auto t = static_cast<size_t>(at);
      EXPECT_EQ(batch.tokens[t],
                set.tokens[static_cast<size_t>(window.first_token + i)]);
      EXPECT_EQ(batch.segments[t], i >= window.context_at);
      EXPECT_EQ(batch.positions[t], i);
      EXPECT_EQ(batch.sequences[t], static_cast<int32_t>(n));
    }
    longest = std::max<int64_t>(longest, window.length);
  }
  EXPECT_EQ(batch.offsets[4], at);
  EXPECT_EQ(view.tokens.shape, (Shape{at}));
  EXPECT_EQ(view.max_length, longest);
}

TEST_F(Questions, SumsOfASet) {
  const QuestionSet set = load_questions(options_, 1).train;
  int64_t longest = 0, total = 0;
  for (const Window& window : set.windows) {
    EXPECT_EQ(window.first_token, total);
    total += window.length;
    longest = std::max<int64_t>(longest, window.length);
  }
  EXPECT_EQ(set.longest(), longest);
  EXPECT_EQ(longest, 64);
  EXPECT_EQ(total, std::ssize(set.tokens));
  EXPECT_DOUBLE_EQ(set.mean_length(), static_cast<double>(total) /
                                          static_cast<double>(set.samples()));
  EXPECT_GT(set.memory_bytes(), 12 * total);
}

TEST_F(Questions, RefuseImpossibleOptions) {
  options_.max_length = 23;
  expect_refused(
      "data.max_length: 23, expected at least 24 to hold data.max_question = "
      "20 tokens, [CLS], two [SEP] and one token of the context");
  options_.max_length = 24;
  EXPECT_EQ(load_questions(options_, 1).train.longest(), 24);
  options_.stride = 0;
  expect_refused("data.stride: 0, expected at least 1");
  options_.stride = 8;
  options_.max_question = 0;
  expect_refused("data.max_question: 0, expected at least 1");
  options_.max_question = 20;
  options_.max_length = int64_t{1} << 40;
  expect_refused("data.max_length: 1099511627776, expected at most 1048576");
  options_.max_length = 64;
  options_.vocabulary = "";
  expect_refused(
      "data.vocabulary: empty, expected the path of a WordPiece "
      "vocabulary with one token per line");
  options_.path = "/nonexistent";
  expect_refused("data.path: /nonexistent: no such folder",
                 ExitCode::kInputMissing);
}

TEST_F(Questions, RefuseASetWithoutSamples) {
  const fs::path train = folder_ / "train-v1.1.json";
  write_bytes(train, R"({"data": [{"paragraphs": [{"context": "a b",
      "qas": [{"id": "x", "question": "what",
               "answers": [{"text": "c", "answer_start": 0}]}]}]}]})");
  expect_refused(train.string() +
                 ": for none of its 1 questions does the context contain the "
                 "answer at answer_start, expected at least one");
}

}  // namespace
}  // namespace syncopate
