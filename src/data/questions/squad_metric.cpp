// The evaluation of SQuAD 1.1 (evaluate-v1.1.py, Rajpurkar et al. 2016), whose
// rules are those of Python's str and re: https://docs.python.org/3/library.
#include <algorithm>
#include <ranges>
#include <string_view>
#include <unordered_map>

#include <utf8proc.h>

#include "base/text.h"
#include "data/questions/answers.h"
#include "data/questions/unicode.h"

namespace syncopate {
namespace {

// A byte of invalid UTF-8 is kept as one code point above Unicode's range, from
// which encode() restores it.
constexpr utf8proc_int32_t kBrokenByte = 0x110000;
constexpr char32_t kSigma = 0x3c3;
constexpr utf8proc_int32_t kCapitalDottedI = 0x130, kDotAbove = 0x307;

using Text = std::u32string;

Text decode(std::string_view bytes) {
  Text text;
  text.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    const char32_t broken = kBrokenByte + static_cast<uint8_t>(bytes[at]);
    text += take_code_point(bytes, at).value_or(broken);
  }
  return text;
}

void encode(char32_t letter, std::string& out) {
  const auto code = static_cast<utf8proc_int32_t>(letter);
  if (code >= kBrokenByte) {
    out += static_cast<char>(code - kBrokenByte);
    return;
  }
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t count = utf8proc_encode_char(code, bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(count));
}

bool is_in(char32_t letter, char32_t first, char32_t last) {
  return letter >= first && letter <= last;
}

utf8proc_category_t category(char32_t letter) {
  // Unassigned (Cn) for a broken byte.
  return utf8proc_category(static_cast<utf8proc_int32_t>(letter));
}

// str.lower(), the full case mapping. Only the capital sigma and the dotted
// capital I need more than a table.
Text lower(const Text& text) {
  Text result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto letter = static_cast<utf8proc_int32_t>(text[i]);
    if (text[i] == kCapitalSigma) {
      const bool is_final = is_final_sigma(
          i, text.size(), [&](size_t place) { return text[place]; });
      result += is_final ? kFinalSigma : kSigma;
    } else if (letter == kCapitalDottedI) {
      result += {U'i', static_cast<char32_t>(kDotAbove)};
    } else {
      result += letter >= kBrokenByte
                    ? text[i]
                    : static_cast<char32_t>(utf8proc_tolower(letter));
    }
  }
  return result;
}

// string.punctuation, which is ASCII only
bool is_punctuation(char32_t letter) {
  return is_in(letter, '!', '/') || is_in(letter, ':', '@') ||
         is_in(letter, '[', '`') || is_in(letter, '{', '~');
}

// \w of re: str.isalnum() (the categories L and N), or _
bool is_word(char32_t letter) {
  const utf8proc_category_t of = category(letter);
  return letter == '_' ||
         (of >= UTF8PROC_CATEGORY_LU && of <= UTF8PROC_CATEGORY_LO) ||
         (of >= UTF8PROC_CATEGORY_ND && of <= UTF8PROC_CATEGORY_NO);
}

// re.sub(r"\b(a|an|the)\b", " ", text). Articles match whole runs of \w only.
Text without_articles(const Text& text) {
  Text result;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && is_word(text[end])) ++end;
    const std::u32string_view run(text.data() + i, end - i);
    if (run == U"a" || run == U"an" || run == U"the") {
      result += U' ';
    } else {
      result += run;
    }
    if (end < text.size()) result += text[end++];
    i = end;
  }
  return result;
}

// Splits a normalized text at its single spaces.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (const auto word : std::views::split(text, ' '))
    words.emplace_back(word.begin(), word.end());
  return words;
}

double f1_of_pair(const std::string& prediction, const std::string& right) {
  const std::string normal_prediction = normalize_answer(prediction);
  const std::string normal_right = normalize_answer(right);
  const auto predicted = words_of(normal_prediction);
  const auto wanted = words_of(normal_right);
  std::unordered_map<std::string_view, int64_t> left;
  for (const std::string_view word : wanted) ++left[word];
  int64_t same = 0;
  for (const std::string_view word : predicted)
    if (left[word]-- > 0) ++same;
  if (same == 0) return 0;
  const double precision =
      static_cast<double>(same) / static_cast<double>(predicted.size());
  const double recall =
      static_cast<double>(same) / static_cast<double>(wanted.size());
  return 2 * precision * recall / (precision + recall);
}

}  // namespace

std::string normalize_answer(const std::string& text) {
  Text letters = lower(decode(text));
  std::erase_if(letters, is_punctuation);
  std::string result;
  bool is_between = false;  // in a run of spaces behind a word
  for (const char32_t letter : without_articles(letters)) {
    if (is_python_space(letter)) {
      is_between = !result.empty();
      continue;
    }
    if (is_between) result += ' ';
    is_between = false;
    encode(letter, result);
  }
  return result;
}

double exact_match(const std::string& prediction,
                   std::span<const std::string> right) {
  const std::string normal = normalize_answer(prediction);
  return std::ranges::find(right, normal, normalize_answer) != right.end();
}

double f1_score(const std::string& prediction,
                std::span<const std::string> right) {
  double best = 0;
  for (const std::string& text : right)
    best = std::max(best, f1_of_pair(prediction, text));
  return best;
}

SquadScore score_predictions(
    const QuestionSet& set,
    const std::map<std::string, std::string>& predictions) {
  SquadScore score;
  for (const Question& question : set.questions) {
    ++score.questions;
    const auto found = predictions.find(question.id);
    if (found == predictions.end()) {
      ++score.unanswered;
      continue;
    }
    score.exact_match += exact_match(found->second, question.answers);
    score.f1 += f1_score(found->second, question.answers);
  }
  if (score.questions == 0) return score;
  const auto questions = static_cast<double>(score.questions);
  score.exact_match = 100.0 * score.exact_match / questions;
  score.f1 = 100.0 * score.f1 / questions;
  return score;
}

}  // namespace syncopate
