// The SQuAD reader: values, positions of answers, refusals and error messages.
#include "data/questions/squad.h"

#include "data_files.h"

namespace syncopate {
namespace {

const std::string kParagraph =
    R"({"context": "Zoë met Ål in Rome.", "qas": [
      {"id": "a", "question": "Who met Ål?",
       "answers": [{"text": "Zoë", "answer_start": 0},
                   {"text": "Zoë met", "answer_start": 0}]},
      {"id": "b", "question": "Where?",
       "answers": [{"text": "Rome", "answer_start": 14}]}]})";

std::string file_of(const std::string& paragraphs) {
  return R"({"version": "1.1", "data": [{"title": "t", "paragraphs": [)" +
         paragraphs + "]}]}";
}

TEST(Squad, ReadsContextsQuestionsAndAnswers) {
  const SquadText text = parse_squad("FILE", file_of(kParagraph));
  ASSERT_EQ(text.contexts.size(), 1u);
  EXPECT_EQ(text.contexts[0], "Zoë met Ål in Rome.");
  ASSERT_EQ(text.questions.size(), 2u);
  EXPECT_EQ(text.questions[0].id, "a");
  EXPECT_EQ(text.questions[0].text, "Who met Ål?");
  EXPECT_EQ(text.questions[0].context, 0);
  EXPECT_EQ(text.questions[0].answers,
            (std::vector<std::string>{"Zoë", "Zoë met"}));
  EXPECT_EQ(text.questions[1].id, "b");
  // 14 letters are 16 bytes here.
  ASSERT_EQ(text.answer_begins[1].size(), 1u);
  EXPECT_EQ(text.answer_begins[1][0], 16);
  EXPECT_EQ(text.contexts[0].substr(16, 4), "Rome");
}

TEST(Squad, ReadsPackedFilesAlikeAndSaysWhatIsMissing) {
  const ScratchFolder folder;
  write_bytes(folder / "plain.json", file_of(kParagraph));
  write_gz(folder / "packed.json.gz", file_of(kParagraph));
  const SquadText plain = read_squad(folder.path().string(), "plain.json");
  const SquadText packed = read_squad(folder.path().string(), "packed.json");
  EXPECT_EQ(plain.digest, packed.digest);
  EXPECT_EQ(plain.contexts, packed.contexts);
  expect_error(
      ExitCode::kInputMissing,
      (folder / "absent.json").string() + ": not found, with or without .gz",
      [&] { read_squad(folder.path().string(), "absent.json"); });
}

TEST(Squad, ReadsMoreThanOneChunkOfPackedBytes) {
  std::string paragraphs;
  for (int i = 0; i < 3000; ++i) {
    paragraphs += fmt::format(
        R"({}{{"context": "{}", "qas": [{{"id": "{}", "question": "?",
           "answers": [{{"text": "x", "answer_start": 499}}]}}]}})",
        i > 0 ? "," : "", std::string(500, 'x'), i);
  }
  const ScratchFolder folder;
  write_gz(folder / "long.json.gz", file_of(paragraphs));
  const SquadText text = read_squad(folder.path().string(), "long.json");
  EXPECT_EQ(text.questions.size(), 3000u);
  EXPECT_EQ(text.answer_begins[2999][0], 499);
}

TEST(Squad, RefusesDamagedPackedFiles) {
  const ScratchFolder folder;
  const fs::path path = folder / "cut.json.gz";
  write_gz(path, file_of(kParagraph));
  const std::string whole = read_bytes(path);
  // Cut in the data, in the check sum; a changed byte of the check sum; more
  // behind it.
  for (const std::string& bytes :
       {whole.substr(0, whole.size() / 2), whole.substr(0, whole.size() - 5),
        changed_at(whole, whole.size() - 6), whole + "more",
        whole + changed_at(gzipped(" "), 0)}) {
    write_bytes(path, bytes);
    const Error error =
        error_of([&] { read_squad(folder.path().string(), "cut.json"); });
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_TRUE(std::string(error.what()).starts_with(path.string() + ": "))
        << error.what();
  }
}

void expect_refused(const std::string& content, const std::string& line) {
  expect_error(ExitCode::kBadInput, line,
               [&] { parse_squad("FILE", content); });
}

// The paragraph with one part replaced.
std::string changed(const std::string& from, const std::string& to) {
  std::string paragraph = kParagraph;
  const size_t at = paragraph.rfind(from);
  EXPECT_NE(at, std::string::npos) << from;
  return file_of(paragraph.replace(at, from.size(), to));
}

TEST(Squad, SaysWhereAFileIsOfAnotherForm) {
  const std::string first = "FILE: data[0].paragraphs[0]";
  expect_refused("{", "FILE: not JSON at byte 2, expected a SQuAD file");
  expect_refused("[1, 2]", "FILE: array, expected an object with \"data\"");
  expect_refused("{}", "FILE: no \"data\", expected a list");
  expect_refused(R"({"data": 3})", "FILE: \"data\" is number, expected a list");
  expect_refused(R"({"data": []})",
                 "FILE: no questions, expected at least one");
  expect_refused(R"({"data": [{}]})",
                 "FILE: data[0]: no \"paragraphs\", expected a list");
  expect_refused(file_of("7"),
                 first + ": number, expected an object with \"context\"");
  expect_refused(changed("\"context\"", "\"text\""),
                 first + ": no \"context\", expected a text");
  expect_refused(changed("\"qas\"", "\"questions\""),
                 first + ": no \"qas\", expected a list");
  expect_refused(changed("\"Where?\"", "null"),
                 first + ".qas[1]: \"question\" is null, expected a text");
  expect_refused(changed("\"b\"", "\"a\""),
                 first +
                     ".qas[1]: id \"a\" belongs to another question too, "
                     "expected unique ids");
  expect_refused(changed(R"([{"text": "Rome", "answer_start": 14}])", "[]"),
                 first +
                     ".qas[1]: no answer, expected at least one as in "
                     "SQuAD 1.1");
  expect_refused(changed(R"("text": "Rome")", R"("text": 1)"),
                 first +
                     ".qas[1].answers[0]: \"text\" is number, expected a "
                     "text");
  expect_refused(changed(R"(, "answer_start": 14)", ""),
                 first +
                     ".qas[1].answers[0]: no \"answer_start\", expected a "
                     "whole number");
  expect_refused(changed("14", "1.5"),
                 first +
                     ".qas[1].answers[0]: \"answer_start\" is 1.5, "
                     "expected a whole number of letters");
  expect_refused(changed("Where?", "\xff"),
                 "FILE: not JSON at byte 300, expected a SQuAD file");
}

TEST(Squad, AWrongValueIsNotPrintedInFull) {
  const auto expect_shown = [](const std::string& value,
                               const std::string& shown) {
    expect_refused(changed("14", value),
                   "FILE: data[0].paragraphs[0].qas[1].answers[0]: "
                   "\"answer_start\" is " +
                       shown + ", expected a whole number of letters");
  };
  const std::string text(40000, 'x');
  expect_shown(fmt::format("[\"{}\"]", text), "array");
  expect_shown(R"({"a": 14})", "object");
  expect_shown("null", "null");
  expect_shown("true", "boolean");
  expect_shown(R"("14")", R"("14")");
  expect_shown(fmt::format("\"{}\"", text),
               fmt::format("\"{}\"...", text.substr(0, 80)));
}

std::string nested(size_t depth, const std::string& open, char close) {
  std::string text;
  for (size_t i = 0; i < depth; ++i) text += open;
  return text + "1" + std::string(depth, close);
}

TEST(Squad, RefusesDeepNesting) {
  const std::string line =
      "FILE: nested more than 64 levels deep, expected a SQuAD file";
  constexpr size_t kDeep = 1000000;
  for (const std::string& deep :
       {nested(kDeep, "[", ']'), nested(kDeep, R"({"a":)", '}')}) {
    expect_refused(deep, line);
    expect_refused(changed("14", deep), line);
    expect_refused(changed(R"("Where?")", deep), line);
  }
  // Members that are not read may hold anything that is not deeper.
  const SquadText text = parse_squad(
      "FILE",
      changed(R"("Where?")", R"("Where?", "x": )" + nested(50, "[", ']')));
  EXPECT_EQ(text.questions.size(), 2u);
}

TEST(Squad, AnAnswerOutsideTheContextHasNoPlace) {
  for (const std::string at : {"19", "-1", "18446744073709551615"})
    EXPECT_FALSE(
        parse_squad("FILE", changed("14", at)).answer_begins[1][0].has_value())
        << at;
  EXPECT_EQ(parse_squad("FILE", changed("14", "18")).answer_begins[1][0], 20);
}

std::vector<std::string> words_of(const std::string& context) {
  std::vector<std::string> words;
  for (const TextRange range : squad_words(context))
    words.push_back(
        context.substr(static_cast<size_t>(range.begin),
                       static_cast<size_t>(range.end - range.begin)));
  return words;
}

TEST(Squad, WordsStandBetweenTheSpacesOfRunSquad) {
  EXPECT_EQ(words_of(" a,b\tc\u202Fd\r\n\u00e9\u00a0f  "),
            (std::vector<std::string>{"a,b", "c", "d", "\u00e9\u00a0f"}));
  EXPECT_TRUE(words_of("").empty());
  EXPECT_TRUE(words_of(" \n").empty());
}

// "first-last", or "none".
std::string place_of(const std::string& context,
                     int64_t begin,
                     const std::string& answer) {
  const auto words = find_answer(context, squad_words(context), begin, answer);
  return words ? fmt::format("{}-{}", words->first, words->last) : "none";
}

TEST(Squad, FindsTheWordsThatHoldAnAnswer) {
  const std::string context = "The year (1832) and  the \u00e9t\u00e9 1833.";
  EXPECT_EQ(place_of(context, 10, "1832"), "2-2");
  EXPECT_EQ(place_of(context, 4, "year (1832)"), "1-2");
  EXPECT_EQ(place_of(context, 25, "\u00e9t\u00e9 1833"), "5-6");
  // Runs of spaces are equal, as in the published preparation, but the number
  // of words follows from the answer's own letters.
  EXPECT_EQ(place_of(context, 16, "and the"), "3-4");
  EXPECT_EQ(place_of(context, 10, "1833"), "none");
  EXPECT_EQ(place_of(context, 10, ""), "none");
  EXPECT_EQ(place_of("  the end", 0, "the"), "none");  // before any word
  EXPECT_EQ(place_of("the end", 4, "end of it"), "none");
  EXPECT_FALSE(find_answer(context, squad_words(context), std::nullopt, "The"));
}

}  // namespace
}  // namespace syncopate
