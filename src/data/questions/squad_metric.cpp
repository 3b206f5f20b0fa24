// The evaluation of SQuAD 1.1 (evaluate-v1.1.py, Rajpurkar et al. 2016), whose
// rules are those of Python's str and re: https://docs.python.org/3/library.
#include <algorithm>
#include <string_view>
#include <unordered_map>

#include <utf8proc.h>

#include "data/questions/answers.h"

namespace syncopate {
namespace {

// A byte of invalid UTF-8 is kept as one code point above Unicode's range, from
// which encode() restores it.
constexpr utf8proc_int32_t kBrokenByte = 0x110000;
constexpr utf8proc_int32_t kCapitalSigma = 0x3a3, kSigma = 0x3c3,
                           kFinalSigma = 0x3c2;
constexpr utf8proc_int32_t kCapitalDottedI = 0x130, kDotAbove = 0x307;

using Text = std::u32string;

Text decode(std::string_view bytes) {
  Text text;
  text.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    utf8proc_int32_t letter = 0;
    const utf8proc_ssize_t used = utf8proc_iterate(
        reinterpret_cast<const utf8proc_uint8_t*>(bytes.data()) + at,
        static_cast<utf8proc_ssize_t>(bytes.size() - at), &letter);
    if (used <= 0) letter = kBrokenByte + static_cast<uint8_t>(bytes[at]);
    text += static_cast<char32_t>(letter);
    at += used <= 0 ? 1 : static_cast<size_t>(used);
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

// Unicode's property Cased (Lu, Ll, Lt, Other_Lowercase, Other_Uppercase)
// without code points that are also Case_Ignorable.
bool is_cased(char32_t letter) {
  switch (category(letter)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
      return true;
    default:
      return letter == 0xaa || letter == 0xba ||
             is_in(letter, 0x2160, 0x217f) || is_in(letter, 0x24b6, 0x24e9) ||
             is_in(letter, 0x1f130, 0x1f149) ||
             is_in(letter, 0x1f150, 0x1f169) || is_in(letter, 0x1f170, 0x1f189);
  }
}

// Unicode's property Case_Ignorable: Mn, Me, Cf, Lm, Sk, and the word breaks
// MidLetter, MidNumLet and Single_Quote.
bool is_case_ignorable(char32_t letter) {
  switch (category(letter)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      constexpr std::u32string_view kBreaks =
          U"'.:\u00b7\u0387\u055f\u05f4\u2018\u2019\u2024\u2027\ufe13\ufe52"
          U"\ufe55\uff07\uff0e\uff1a";
      return kBreaks.find(letter) != kBreaks.npos;
  }
}

// Unicode's condition Final_Sigma: a cased letter precedes and none follows.
bool is_final(const Text& text, size_t sigma) {
  size_t before = sigma;
  while (before > 0 && is_case_ignorable(text[before - 1])) --before;
  if (before == 0 || !is_cased(text[before - 1])) return false;
  size_t after = sigma + 1;
  while (after < text.size() && is_case_ignorable(text[after])) ++after;
  return after == text.size() || !is_cased(text[after]);
}

// str.lower(), the full case mapping. Only the capital sigma and the dotted
// capital I need more than a table.
Text lower(const Text& text) {
  Text result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto letter = static_cast<utf8proc_int32_t>(text[i]);
    if (letter == kCapitalSigma) {
      result += static_cast<char32_t>(is_final(text, i) ? kFinalSigma : kSigma);
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

// str.isspace()
bool is_space(char32_t letter) {
  return is_in(letter, 0x09, 0x0d) || is_in(letter, 0x1c, 0x20) ||
         letter == 0x85 || letter == 0xa0 || letter == 0x1680 ||
         is_in(letter, 0x2000, 0x200a) || is_in(letter, 0x2028, 0x2029) ||
         letter == 0x202f || letter == 0x205f || letter == 0x3000;
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
  while (!text.empty()) {
    const size_t length = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, length));
    text.remove_prefix(std::min(length + 1, text.size()));
  }
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
    if (is_space(letter)) {
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
  return std::any_of(right.begin(), right.end(), [&](const std::string& text) {
    return normalize_answer(text) == normal;
  });
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
