#include "data/questions/squad.h"

#include <algorithm>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/text.h"
#include "data/byte_reader.h"
#include "data/gunzip.h"
#include "data/questions/question_readers.h"
#include "data/questions/unicode.h"
#include "data/strict_json.h"

namespace syncopate {
namespace {

using Json = nlohmann::json;

constexpr int64_t kLimitBytes = INT32_MAX;  // positions in a text are 32 bits
constexpr int kMaxDepth = 64;  // an answer's members are 9 levels deep

std::string unpack(const fs::path& path) {
  constexpr size_t kChunkBytes = 1 << 20;
  const std::string packed = read_file(path, kLimitBytes);
  Gunzip gunzip(path.string());
  std::string content;
  for (std::string_view left = packed; !left.empty();) {
    const size_t before = content.size();
    content.resize(before + kChunkBytes);
    const size_t got =
        gunzip.unpack(left, {content.data() + before, kChunkBytes});
    content.resize(before + got);
    if (std::ssize(content) > kLimitBytes)
      fail(ExitCode::kBadInput,
           "{}: unpacks to more than {} bytes, which is the limit",
           path.string(), kLimitBytes);
  }
  gunzip.expect_end();
  return content;
}

// Every byte of UTF-8 but 10xxxxxx begins a code point. "Letter" means code
// point in this file, as answer_start counts them.
bool begins_letter(char byte) {
  return (byte & 0xC0) != 0x80;
}

// The byte offset of letter number `index`; empty if the text is shorter.
std::optional<int64_t> byte_of_letter(std::string_view text, int64_t index) {
  if (index < 0) return std::nullopt;
  int64_t letter = -1;
  for (size_t i = 0; i < text.size(); ++i) {
    if (begins_letter(text[i])) ++letter;
    if (letter == index) return static_cast<int64_t>(i);
  }
  return std::nullopt;
}

// A wrong value for an error message: a number, a text up to some length, or
// the kind of anything else, which may be long.
std::string shown(const Json& value) {
  if (value.is_string()) return as_json(value.get_ref<const std::string&>());
  return value.is_number() ? value.dump() : value.type_name();
}

class Reader {
 public:
  Reader(std::string origin, Answers answers)
      : origin_(std::move(origin)), answers_(answers) {}

  SquadText read(const Json& root) {
    const Json& articles = list(root, "data", "");
    for (size_t a = 0; a < articles.size(); ++a) {
      const std::string article = fmt::format("data[{}]", a);
      const Json& paragraphs = list(articles[a], "paragraphs", article);
      for (size_t p = 0; p < paragraphs.size(); ++p)
        read_paragraph(paragraphs[p],
                       fmt::format("{}.paragraphs[{}]", article, p));
    }
    if (text_.questions.empty())
      refuse("", "no questions, expected at least one");
    return std::move(text_);
  }

 private:
  [[noreturn]] void refuse(const std::string& place, const std::string& what) {
    fail(ExitCode::kBadInput, "{}: {}{}{}", origin_, place,
         place.empty() ? "" : ": ", what);
  }

  const Json& member(const Json& parent,
                     const char* name,
                     Json::value_t type,
                     const char* type_name,
                     const std::string& place) {
    if (!parent.is_object())
      refuse(place, fmt::format("{}, expected an object with \"{}\"",
                                parent.type_name(), name));
    const auto found = parent.find(name);
    if (found == parent.end())
      refuse(place, fmt::format("no \"{}\", expected {}", name, type_name));
    if (found->type() != type)
      refuse(place, fmt::format("\"{}\" is {}, expected {}", name,
                                found->type_name(), type_name));
    return *found;
  }
  const Json& list(const Json& parent,
                   const char* name,
                   const std::string& place) {
    return member(parent, name, Json::value_t::array, "a list", place);
  }
  const std::string& string(const Json& parent,
                            const char* name,
                            const std::string& place) {
    return member(parent, name, Json::value_t::string, "a text", place)
        .get_ref<const std::string&>();
  }

  void read_paragraph(const Json& paragraph, const std::string& place) {
    text_.contexts.push_back(string(paragraph, "context", place));
    const Json& questions = list(paragraph, "qas", place);
    for (size_t q = 0; q < questions.size(); ++q)
      read_question(questions[q], fmt::format("{}.qas[{}]", place, q));
  }

  void read_question(const Json& from, const std::string& place) {
    Question question;
    question.id = string(from, "id", place);
    question.text = string(from, "question", place);
    question.context = std::ssize(text_.contexts) - 1;
    if (!ids_.insert(question.id).second)
      refuse(place, fmt::format("id {} belongs to another question too, "
                                "expected unique ids",
                                as_json(question.id)));
    std::vector<std::optional<int64_t>> begins;
    const bool may_lack = answers_ == Answers::kOptional;
    const Json none = Json::array();
    const Json& answers = may_lack && !from.contains("answers")
                              ? none
                              : list(from, "answers", place);
    if (answers.empty() && !may_lack)
      refuse(place, "no answer, expected at least one as in SQuAD 1.1");
    for (size_t a = 0; a < answers.size(); ++a) {
      const std::string where = fmt::format("{}.answers[{}]", place, a);
      question.answers.push_back(string(answers[a], "text", where));
      begins.push_back(read_begin(answers[a], where));
    }
    text_.questions.push_back(std::move(question));
    text_.answer_begins.push_back(std::move(begins));
  }

  std::optional<int64_t> read_begin(const Json& answer,
                                    const std::string& place) {
    const auto found = answer.find("answer_start");
    if (found == answer.end())
      refuse(place, "no \"answer_start\", expected a whole number");
    if (!found->is_number_integer())
      refuse(place, fmt::format("\"answer_start\" is {}, expected a whole "
                                "number of letters",
                                shown(*found)));
    // A value above INT64_MAX wraps to a negative one, which is outside too.
    return byte_of_letter(text_.contexts.back(), found->get<int64_t>());
  }

  std::string origin_;
  Answers answers_;
  SquadText text_;
  std::unordered_set<std::string> ids_;
};

}  // namespace

SquadText parse_squad(const std::string& origin,
                      std::string_view json,
                      Answers answers) {
  const auto limit_depth = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > kMaxDepth)
      fail(ExitCode::kBadInput,
           "{}: nested more than {} levels deep, expected a SQuAD file", origin,
           kMaxDepth);
    return true;
  };
  Json root;
  try {
    root = Json::parse(json.begin(), json.end(), limit_depth);
  } catch (const Json::parse_error& error) {
    fail(ExitCode::kBadInput, "{}: not JSON at byte {}, expected a SQuAD file",
         origin, error.byte);
  } catch (const Json::exception& error) {
    fail(ExitCode::kBadInput, "{}: {}, expected a SQuAD file", origin,
         error.what());
  }
  SquadText text = Reader(origin, answers).read(root);
  text.digest = digest_of(json);
  return text;
}

SquadText read_squad(const fs::path& folder,
                     const std::string& name,
                     Answers answers) {
  const fs::path path = plain_or_packed(folder / name);
  return parse_squad(
      path.string(),
      path.extension() == ".gz" ? unpack(path) : read_file(path, kLimitBytes),
      answers);
}

QuestionTexts open_squad(const DataOptions& options) {
  const fs::path folder = existing_path(options.path);
  if (options.vocabulary.empty())
    fail(ExitCode::kBadInput,
         "data.vocabulary: empty, expected the path of a WordPiece vocabulary "
         "with one token per line");
  const auto part = [&](const std::string& name,
                        Answers answers) -> QuestionTexts::Part {
    return {(folder / name).string(),
            [=] { return read_squad(folder, name, answers); },
            fs::exists(folder / name) || fs::exists(folder / (name + ".gz"))};
  };
  return {"squad " + options.path,
          WordPiece(fs::path(options.vocabulary), letter_case(options)),
          part("train-v1.1.json", Answers::kRequired),
          part("dev-v1.1.json", options.trained.is_used ? Answers::kOptional
                                                        : Answers::kRequired)};
}

// --- locating answers

std::vector<TextRange> squad_words(std::string_view context) {
  constexpr std::string_view kNarrowSpace = "\u202F";
  CHECK(std::ssize(context) <= kLimitBytes);
  std::vector<TextRange> words;
  bool in_word = false;
  for (size_t at = 0; at < context.size();) {
    const char c = context[at];
    const bool is_narrow = context.substr(at).starts_with(kNarrowSpace);
    const bool is_space =
        c == ' ' || c == '\t' || c == '\r' || c == '\n' || is_narrow;
    const auto begin = static_cast<int32_t>(at);
    at += is_narrow ? kNarrowSpace.size() : 1;
    if (!is_space) {
      if (!in_word) words.push_back({begin, begin});
      words.back().end = static_cast<int32_t>(at);
    }
    in_word = !is_space;
  }
  return words;
}

namespace {

// Replaces every run of white space by one space and trims both ends.
std::string with_single_spaces(std::string_view text) {
  std::string result;
  bool is_pending = false;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const auto letter = take_code_point(text, at);
    if (letter && is_python_space(*letter)) {
      is_pending = !result.empty();
      continue;
    }
    if (is_pending) result += ' ';
    is_pending = false;
    result += text.substr(begin, at - begin);
  }
  return result;
}

// The index of the last word that begins at or before byte `at`; -1 if there
// is none.
int64_t word_at(const std::vector<TextRange>& words, int64_t at) {
  const auto behind =
      std::ranges::upper_bound(words, at, {}, &TextRange::begin);
  return behind - words.begin() - 1;
}

}  // namespace

std::optional<WordRange> find_answer(std::string_view context,
                                     const std::vector<TextRange>& words,
                                     std::optional<int64_t> begin,
                                     std::string_view answer) {
  if (!begin || answer.empty()) return std::nullopt;
  // Find the last of as many letters of the context as the answer has; the
  // texts are compared by words below.
  auto letters = std::count_if(answer.begin(), answer.end(), begins_letter);
  auto last = static_cast<size_t>(*begin);
  for (size_t i = last; i < context.size() && letters > 0; ++i) {
    if (!begins_letter(context[i])) continue;
    last = i;
    --letters;
  }
  const WordRange range = {word_at(words, *begin),
                           word_at(words, static_cast<int64_t>(last))};
  if (range.first < 0) return std::nullopt;
  std::string found;
  for (int64_t i = range.first; i <= range.last; ++i) {
    const TextRange word = words[static_cast<size_t>(i)];
    if (!found.empty()) found += ' ';
    found += context.substr(static_cast<size_t>(word.begin),
                            static_cast<size_t>(word.end - word.begin));
  }
  if (found.find(with_single_spaces(answer)) == std::string::npos)
    return std::nullopt;
  return range;
}

}  // namespace syncopate
