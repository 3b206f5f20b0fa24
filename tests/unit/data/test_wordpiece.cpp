// The tokenizer against recorded tokens of an independent one, the ranges of
// bytes of its tokens, and the errors for invalid vocabularies.
#include "data/questions/wordpiece.h"

#include <sstream>

#include "data_files.h"
#include "support/fixtures.h"

namespace syncopate {
namespace {

const std::string kSpecials = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n";

std::string from_hex(const std::string& hex) {
  std::string bytes;
  if (hex == "-") return bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

std::vector<Token> tokenize(const WordPiece& tokenizer,
                            const std::string& text) {
  std::vector<Token> tokens;
  tokenizer.tokenize(text, tokens);
  return tokens;
}

std::string cut(const std::string& text, TextRange range) {
  return text.substr(static_cast<size_t>(range.begin),
                     static_cast<size_t>(range.end - range.begin));
}

// "piece<bytes of the piece|bytes of the word> ..."
std::string shown(const WordPiece& tokenizer, const std::string& text) {
  std::string line;
  for (const Token& token : tokenize(tokenizer, text))
    line += fmt::format("{}{}<{}|{}>", line.empty() ? "" : " ",
                        tokenizer.piece(token.id), cut(text, token.text),
                        cut(text, token.word));
  return line;
}

WordPiece made(const std::string& pieces,
               LetterCase letter_case = LetterCase::kLower) {
  return {"made", kSpecials + pieces, letter_case};
}

TEST(WordPiece, ReadsWhatAnIndependentTokenizerReads) {
  const fs::path file = fixture_path("tokenizer_vocabulary.txt");
  const WordPiece lower(file, LetterCase::kLower);
  const WordPiece as_written(file, LetterCase::kAsWritten);
  std::istringstream lines(read_file(fixture_path("tokenizer.txt")));
  int64_t compared = 0, ranges = 0;
  for (std::string line; std::getline(lines, line); ++compared) {
    std::istringstream words(line);
    std::string kind, hex;
    words >> kind >> hex;
    std::vector<int32_t> expected, found;
    for (int32_t id = 0; words >> id;) expected.push_back(id);
    const std::string text = from_hex(hex);
    const WordPiece& tokenizer = kind == "lower" ? lower : as_written;
    int32_t before = 0;
    for (const Token& token : tokenize(tokenizer, text)) {
      found.push_back(token.id);
      EXPECT_LT(token.text.begin, token.text.end);
      EXPECT_LE(token.word.begin, token.text.begin);
      EXPECT_LE(token.text.end, token.word.end);
      EXPECT_LE(token.word.end, std::ssize(text));
      EXPECT_LE(before, token.word.begin + 1 + token.word.end);
      before = token.word.begin;
      ++ranges;
    }
    EXPECT_EQ(found, expected) << kind << " " << text;
  }
  EXPECT_GT(compared, 700);
  EXPECT_GT(ranges, 5000);
}

TEST(WordPiece, TakesTheLongestPieceFirst) {
  const WordPiece tokenizer =
      made("un\nunaff\n##aff\n##able\n##a\n##ble\nab\n");
  EXPECT_EQ(shown(tokenizer, "unaffable"),
            "unaff<unaff|unaffable> ##able<able|unaffable>");
  // The longest first piece leaves a rest that no piece begins: no other way
  // is looked for.
  EXPECT_EQ(shown(tokenizer, "unaffx ab"), "[UNK]<unaffx|unaffx> ab<ab|ab>");
}

TEST(WordPiece, WordsEndAtPunctuationAndKeepTheirBytes) {
  const WordPiece tokenizer = made("york\nthe\n,\n(\n)\n20\n##15\n");
  EXPECT_EQ(shown(tokenizer, "The  YORK, (2015)"),
            "the<The|The> york<YORK|YORK> ,<,|,> (<(|(> 20<20|2015> "
            "##15<15|2015> )<)|)>");
}

TEST(WordPiece, LettersCoverTheMarksThatWereStripped) {
  const WordPiece tokenizer = made("cafe\n##s\nab\n\u4e2d\n");
  EXPECT_EQ(shown(tokenizer, "Caf\u00e9s"),
            "cafe<Caf\u00e9|Caf\u00e9s> ##s<s|Caf\u00e9s>");
  EXPECT_EQ(shown(tokenizer, "Cafe\u0301s x"),
            "cafe<Cafe\u0301|Cafe\u0301s> ##s<s|Cafe\u0301s> [UNK]<x|x>");
  // A character without width within a word is part of its bytes.
  EXPECT_EQ(shown(tokenizer, "a\u200bb\u4e2dab"),
            "ab<a\u200bb|a\u200bb> \u4e2d<\u4e2d|\u4e2d> ab<ab|ab>");
}

TEST(WordPiece, KeepsCaseAndAccentsWhereAsked) {
  const WordPiece tokenizer =
      made("The\nthe\ncaf\n##\u00e9\n", LetterCase::kAsWritten);
  EXPECT_EQ(shown(tokenizer, "The the THE caf\u00e9"),
            "The<The|The> the<the|the> [UNK]<THE|THE> caf<caf|caf\u00e9> "
            "##\u00e9<\u00e9|caf\u00e9>");
}

TEST(WordPiece, NoTextBecomesASpecialToken) {
  const WordPiece tokenizer = made("[\n]\nsep\nSEP\n##]\n##SEP\n");
  EXPECT_EQ(shown(tokenizer, "[SEP]"), "[<[|[> sep<SEP|SEP> ]<]|]>");
  for (const Token& token : tokenize(tokenizer, "[CLS] [SEP] a[PAD]")) {
    EXPECT_NE(token.id, tokenizer.separator());
    EXPECT_NE(token.id, tokenizer.classifier());
  }
}

TEST(WordPiece, AWordOfMoreThan100LettersIsUnknown) {
  const WordPiece tokenizer = made("a\n##a\n\u4e2d\n##\u0431\n\u0431\n");
  EXPECT_EQ(tokenize(tokenizer, std::string(100, 'a')).size(), 100u);
  const auto longer = tokenize(tokenizer, std::string(101, 'A') + " a");
  ASSERT_EQ(longer.size(), 2u);
  EXPECT_EQ(longer[0].id, tokenizer.unknown());
  EXPECT_EQ(longer[0].text.end, 101);
  std::string cyrillic;  // letters of two bytes
  for (int i = 0; i < 100; ++i) cyrillic += "\u0431";
  EXPECT_EQ(tokenize(tokenizer, cyrillic).size(), 100u);
  EXPECT_EQ(tokenize(tokenizer, cyrillic + "\u0431").size(), 1u);
}

TEST(WordPiece, BrokenBytesAreLeftOut) {
  const WordPiece tokenizer = made("ab\n");
  const std::string broken = std::string("a\xff\xc3") + "b";
  EXPECT_EQ(shown(tokenizer, broken), fmt::format("ab<{}|{}>", broken, broken));
  EXPECT_TRUE(tokenize(tokenizer, "\xf0\x9f\x98").empty());
  EXPECT_TRUE(tokenize(tokenizer, "").empty());
}

TEST(WordPiece, WithoutContinuationsAWordIsOnePieceOrUnknown) {
  const WordPiece tokenizer = made("ab\na\n");
  EXPECT_EQ(shown(tokenizer, "ab a abb"), "ab<ab|ab> a<a|a> [UNK]<abb|abb>");
}

TEST(WordPiece, ReadsLinesWithCarriageReturnsAndWithoutALastLineEnd) {
  const WordPiece tokenizer("made", "[UNK]\r\n[CLS]\r\n[SEP]\r\nab",
                            LetterCase::kLower);
  EXPECT_EQ(tokenizer.size(), 4);
  EXPECT_EQ(shown(tokenizer, "AB"), "ab<AB|AB>");
  EXPECT_EQ(tokenizer.unknown(), 0);
  EXPECT_EQ(tokenizer.classifier(), 1);
  EXPECT_EQ(tokenizer.separator(), 2);
}

void expect_refused(const std::string& content, const std::string& line) {
  expect_error(ExitCode::kBadInput, line,
               [&] { WordPiece("FILE", content, LetterCase::kLower); });
}

TEST(WordPiece, RefusesAVocabularyThatIsNone) {
  expect_refused("", "FILE: empty, expected one token per line");
  expect_refused(kSpecials + "a\n\nb\n",
                 "FILE: line 6: empty, expected a token");
  expect_refused(kSpecials + "a\nb\na\n",
                 "FILE: line 7: \"a\" is in line 5 already, expected every "
                 "token once");
  expect_refused(kSpecials + "ab\xff\n",
                 "FILE: line 5: byte 3 is not UTF-8, expected a token in "
                 "UTF-8");
  for (const std::string name : {"[UNK]", "[CLS]", "[SEP]"}) {
    std::string content = kSpecials + "a\n";
    content.replace(content.find(name), name.size(), "gone");
    expect_refused(content,
                   "FILE: no " + name +
                       " among its 5 lines, expected a WordPiece vocabulary "
                       "with [UNK], [CLS] and [SEP]");
  }
}

TEST(WordPiece, AMissingFileIsSaidToBe) {
  const ScratchFolder folder;
  expect_error_has(ExitCode::kInputMissing, "absent.txt", [&] {
    WordPiece(folder / "absent.txt", LetterCase::kLower);
  });
}

}  // namespace
}  // namespace syncopate
