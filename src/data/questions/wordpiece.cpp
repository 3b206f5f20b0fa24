#include "data/questions/wordpiece.h"

#include <utf8proc.h>

#include <algorithm>
#include <bit>
#include <span>

#include "base/check.h"
#include "base/text.h"
#include "data/questions/unicode.h"
#include "data/strict_json.h"

namespace syncopate {
namespace {

// WordpieceTokenizer's max_input_chars_per_word. Longer words are [UNK].
constexpr int64_t kMaxWordLetters = 100;
// Keeps the number of trie nodes within the 24 bits that an edge's key has.
constexpr int64_t kVocabularyLimitBytes = (1 << 24) - 1;
constexpr int32_t kReplacement = 0xFFFD;

bool is_ascii_punctuation(int32_t c) {
  return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
         (c >= 123 && c <= 126);
}

bool is_punctuation(int32_t c) {
  if (c < 128) return is_ascii_punctuation(c);
  const auto category = utf8proc_category(c);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

// The role of an ASCII byte when text is split into words.
enum class AsciiClass : uint8_t { kWord, kPunctuation, kSpace, kOther };
constexpr std::array<AsciiClass, 256> kAsciiClasses = [] {
  std::array<AsciiClass, 256> classes{};
  for (size_t c = 0; c < 256; ++c) {
    const bool is_space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    const bool is_letter = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                           (c >= 'A' && c <= 'Z');
    classes[c] = is_space              ? AsciiClass::kSpace
                 : is_letter           ? AsciiClass::kWord
                 : c >= 33 && c <= 126 ? AsciiClass::kPunctuation
                                       : AsciiClass::kOther;
  }
  return classes;
}();

AsciiClass class_of(char byte) {
  return kAsciiClasses[static_cast<uint8_t>(byte)];
}

// The blocks of ideographs that BERT surrounds with spaces.
bool is_ideograph(int32_t c) {
  struct Block {
    int32_t first, last;
  };
  constexpr std::array<Block, 8> kBlocks = {{{0x3400, 0x4DBF},
                                             {0x4E00, 0x9FFF},
                                             {0xF900, 0xFAFF},
                                             {0x20000, 0x2A6DF},
                                             {0x2A700, 0x2B73F},
                                             {0x2B740, 0x2B81F},
                                             {0x2B820, 0x2CEAF},
                                             {0x2F800, 0x2FA1F}}};
  return std::any_of(kBlocks.begin(), kBlocks.end(), [c](const Block& block) {
    return c >= block.first && c <= block.last;
  });
}

// U+0000, U+FFFD and the categories C* are removed from a text, except tab and
// line ends.
bool is_removed(int32_t c, utf8proc_category_t category) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  const bool is_control =
      category == UTF8PROC_CATEGORY_CN ||
      (category >= UTF8PROC_CATEGORY_CC && category <= UTF8PROC_CATEGORY_CO);
  return c == kReplacement || is_control;
}

bool is_space(int32_t c, utf8proc_category_t category) {
  return c == '\t' || c == '\n' || c == '\r' ||
         (category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP);
}

}  // namespace

// A code point of a word, and the bytes of the text from which it came.
struct WordPiece::Letter {
  int32_t code = 0;
  TextRange text;
};

// Maps byte i of a word back to the text: to byte begin + i if `letters` is
// empty, otherwise to letters[letter_of_byte[i]].
struct WordPiece::Source {
  int32_t begin = 0;
  std::span<const Letter> letters{};
  std::span<const int32_t> letter_of_byte{};

  TextRange range(size_t first, size_t last) const {
    if (letters.empty())
      return {begin + static_cast<int32_t>(first),
              begin + static_cast<int32_t>(last) + 1};
    const auto letter = [&](size_t byte) {
      return letters[static_cast<size_t>(letter_of_byte[byte])];
    };
    return {letter(first).text.begin, letter(last).text.end};
  }
};

// --- the vocabulary

WordPiece::WordPiece(const fs::path& file, LetterCase letter_case)
    : letter_case_(letter_case) {
  read(file.string(), read_file(file, kVocabularyLimitBytes));
}

WordPiece::WordPiece(const std::string& origin,
                     std::string_view content,
                     LetterCase letter_case)
    : letter_case_(letter_case) {
  read(origin, content);
}

void WordPiece::read(const std::string& origin, std::string_view content) {
  if (content.empty())
    fail(ExitCode::kBadInput, "{}: empty, expected one token per line", origin);
  CHECK(std::ssize(content) <= kVocabularyLimitBytes);
  const auto refuse = [&](const std::string& what) {
    fail(ExitCode::kBadInput, "{}: line {}: {}", origin, pieces_.size() + 1,
         what);
  };
  digest_ = digest_of(content);
  id_of_node_.assign(1, kNone);
  edges_.resize(1 << 10);
  while (!content.empty()) {
    const size_t end = std::min(content.find('\n'), content.size());
    std::string_view line = content.substr(0, end);
    content.remove_prefix(std::min(end + 1, content.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) refuse("empty, expected a token");
    if (const auto at = find_invalid_utf8(line))
      refuse(fmt::format("byte {} is not UTF-8, expected a token in UTF-8",
                         *at + 1));
    const int32_t first = insert(line);
    if (first != static_cast<int32_t>(pieces_.size()))
      refuse(
          fmt::format("{} is in line {} already, expected every token "
                      "once",
                      as_json(line), first + 1));
    pieces_.emplace_back(line);
  }
  unknown_ = special(origin, "[UNK]");
  classifier_ = special(origin, "[CLS]");
  separator_ = special(origin, "[SEP]");
  continued_ = node_of("##");
}

int32_t WordPiece::special(const std::string& origin,
                           std::string_view name) const {
  const int32_t node = node_of(name);
  const int32_t id =
      node == kNone ? kNone : id_of_node_[static_cast<size_t>(node)];
  if (id == kNone)
    fail(ExitCode::kBadInput,
         "{}: no {} among its {} lines, expected a WordPiece vocabulary with "
         "[UNK], [CLS] and [SEP]",
         origin, name, pieces_.size());
  return id;
}

// --- the trie

namespace {

uint32_t edge_key(int32_t node, uint8_t byte) {
  return static_cast<uint32_t>(node) << 8 | byte;
}

// Fibonacci hashing: the upper bits of a product with 2^32 / golden ratio.
size_t edge_slot(uint32_t key, size_t slots) {
  return key * 2654435769u >> (32 - std::countr_zero(slots));
}

}  // namespace

// Returns the slot that holds the edge, or the free one that would.
size_t WordPiece::slot_of(uint32_t key) const {
  size_t slot = edge_slot(key, edges_.size());
  while (edges_[slot].node != kNone && edges_[slot].key != key)
    slot = (slot + 1) & (edges_.size() - 1);
  return slot;
}

int32_t WordPiece::child(int32_t node, uint8_t byte) const {
  return edges_[slot_of(edge_key(node, byte))].node;
}

int32_t WordPiece::add_child(int32_t node, uint8_t byte) {
  const int32_t found = child(node, byte);
  if (found != kNone) return found;
  if (4 * num_edges_ >= std::ssize(edges_)) grow();
  const uint32_t key = edge_key(node, byte);
  const auto fresh = static_cast<int32_t>(id_of_node_.size());
  id_of_node_.push_back(kNone);
  edges_[slot_of(key)] = {key, fresh};
  ++num_edges_;
  return fresh;
}

void WordPiece::grow() {
  std::vector<Edge> old(2 * edges_.size());
  old.swap(edges_);
  for (const Edge& edge : old)
    if (edge.node != kNone) edges_[slot_of(edge.key)] = edge;
}

int32_t WordPiece::insert(std::string_view piece) {
  int32_t node = 0;
  for (const char byte : piece)
    node = add_child(node, static_cast<uint8_t>(byte));
  int32_t& owner = id_of_node_[static_cast<size_t>(node)];
  if (owner == kNone) owner = static_cast<int32_t>(pieces_.size());
  return owner;
}

int32_t WordPiece::node_of(std::string_view beginning) const {
  int32_t node = 0;
  for (size_t i = 0; i < beginning.size() && node != kNone; ++i)
    node = child(node, static_cast<uint8_t>(beginning[i]));
  return node;
}

// --- text to words

void WordPiece::tokenize(std::string_view text,
                         std::vector<Token>& tokens) const {
  CHECK(text.size() < INT32_MAX);
  size_t at = 0;
  while (at < text.size()) {
    if (class_of(text[at]) == AsciiClass::kSpace) {
      ++at;
      continue;
    }
    const size_t begin = at;
    bool is_plain = true;
    AsciiClass kind{};
    while (at < text.size() &&
           (kind = class_of(text[at])) != AsciiClass::kSpace) {
      is_plain = is_plain && kind != AsciiClass::kOther;
      ++at;
    }
    const TextRange range = {static_cast<int32_t>(begin),
                             static_cast<int32_t>(at)};
    if (is_plain)
      tokenize_ascii(text, range, tokens);
    else
      tokenize_any(text, range, tokens);
  }
}

// Printable ASCII without spaces.
void WordPiece::tokenize_ascii(std::string_view text,
                               TextRange range,
                               std::vector<Token>& tokens) const {
  std::array<char, kMaxWordLetters + 1> word{};
  int32_t at = range.begin;
  while (at < range.end) {
    const int32_t begin = at;
    int64_t length = 0;
    do {
      char letter = text[static_cast<size_t>(at++)];
      if (letter_case_ == LetterCase::kLower && letter >= 'A' && letter <= 'Z')
        letter = static_cast<char>(letter - 'A' + 'a');
      if (length <= kMaxWordLetters) word[static_cast<size_t>(length)] = letter;
      ++length;
    } while (at < range.end &&
             class_of(text[static_cast<size_t>(at - 1)]) == AsciiClass::kWord &&
             class_of(text[static_cast<size_t>(at)]) == AsciiClass::kWord);
    if (length > kMaxWordLetters) {
      tokens.push_back({unknown_, {begin, at}, {begin, at}});
      continue;
    }
    split_word({word.data(), static_cast<size_t>(length)}, length,
               {.begin = begin}, tokens);
  }
}

namespace {

// Unicode lower case of a whole word: a capital sigma that ends a run of
// letters becomes a final sigma (Final_Sigma in SpecialCasing.txt). The dot
// left by a dotted capital I is an accent, which strip_accents removes.
template <typename Letter>
void lower(std::vector<Letter>& letters) {
  std::vector<size_t> final_sigmas;
  for (size_t i = 0; i < letters.size(); ++i)
    if (letters[i].code == kCapitalSigma &&
        is_final_sigma(i, letters.size(),
                       [&](size_t place) { return letters[place].code; }))
      final_sigmas.push_back(i);
  for (Letter& letter : letters) letter.code = utf8proc_tolower(letter.code);
  for (const size_t i : final_sigmas) letters[i].code = kFinalSigma;
}

// Canonical decomposition (NFD) without the category Mn. The range of a letter
// includes the marks that were removed from it.
template <typename Letter>
void strip_accents(std::vector<Letter>& letters) {
  std::vector<Letter> decomposed;
  for (const Letter& letter : letters) {
    std::array<utf8proc_int32_t, 8> codes{};  // no letter has more than 4
    const auto count =
        utf8proc_decompose_char(letter.code, codes.data(), std::ssize(codes),
                                UTF8PROC_DECOMPOSE, nullptr);
    CHECK(count >= 0 && count <= std::ssize(codes));
    for (utf8proc_ssize_t i = 0; i < count; ++i)
      decomposed.push_back({codes[static_cast<size_t>(i)], letter.text});
  }
  const auto rank = [](const Letter& letter) {
    return utf8proc_get_property(letter.code)->combining_class;
  };
  // Canonical ordering: sort each run of marks by combining class.
  for (auto at = decomposed.begin(); at != decomposed.end();) {
    const auto begin = at;
    while (at != decomposed.end() && rank(*at) != 0) ++at;
    std::stable_sort(begin, at, [&](const Letter& a, const Letter& b) {
      return rank(a) < rank(b);
    });
    if (at == begin) ++at;
  }
  letters.clear();
  for (const Letter& letter : decomposed) {
    if (utf8proc_category(letter.code) != UTF8PROC_CATEGORY_MN)
      letters.push_back(letter);
    else if (!letters.empty())
      letters.back().text.end =
          std::max(letters.back().text.end, letter.text.end);
  }
}

}  // namespace

// Tokenizes bytes without ASCII spaces. Splits them at Unicode spaces and
// around ideographs; each part is converted to lower case as a whole.
void WordPiece::tokenize_any(std::string_view text,
                             TextRange range,
                             std::vector<Token>& tokens) const {
  std::vector<Letter> letters;
  const auto finish = [&] {
    if (letters.empty()) return;
    if (letter_case_ == LetterCase::kLower) {
      lower(letters);
      strip_accents(letters);
    }
    split_punctuation(letters, tokens);
    letters.clear();
  };
  const std::string_view part = text.substr(0, static_cast<size_t>(range.end));
  for (size_t at = static_cast<size_t>(range.begin); at < part.size();) {
    const auto begin = static_cast<int32_t>(at);
    const auto code = take_code_point(part, at);
    if (!code) continue;
    const Letter letter = {static_cast<int32_t>(*code),
                           {begin, static_cast<int32_t>(at)}};
    const auto category = utf8proc_category(letter.code);
    if (is_removed(letter.code, category)) continue;
    if (is_space(letter.code, category)) {
      finish();
    } else if (is_ideograph(letter.code)) {
      finish();
      letters.push_back(letter);
      finish();
    } else {
      letters.push_back(letter);
    }
  }
  finish();
}

void WordPiece::split_punctuation(const std::vector<Letter>& letters,
                                  std::vector<Token>& tokens) const {
  std::string word;
  std::vector<int32_t> letter_of_byte;
  for (size_t begin = 0; begin < letters.size();) {
    size_t end = begin + 1;
    if (!is_punctuation(letters[begin].code))
      while (end < letters.size() && !is_punctuation(letters[end].code)) ++end;
    word.clear();
    letter_of_byte.clear();
    for (size_t i = begin; i < end; ++i) {
      std::array<utf8proc_uint8_t, 4> bytes{};
      const auto length = utf8proc_encode_char(letters[i].code, bytes.data());
      word.append(reinterpret_cast<const char*>(bytes.data()),
                  static_cast<size_t>(length));
      letter_of_byte.resize(word.size(), static_cast<int32_t>(i));
    }
    split_word(word, static_cast<int64_t>(end - begin),
               {.letters = letters, .letter_of_byte = letter_of_byte}, tokens);
    begin = end;
  }
}

// --- words to pieces

// Repeatedly takes the longest piece with which the rest of the word begins;
// the whole word becomes [UNK] if there is none. Pieces and words are UTF-8, so
// a piece ends at the end of a letter.
void WordPiece::split_word(std::string_view word,
                           int64_t letters,
                           const Source& source,
                           std::vector<Token>& tokens) const {
  const size_t first_token = tokens.size();
  const TextRange whole = source.range(0, word.size() - 1);
  size_t begin = letters > kMaxWordLetters ? word.size() : 0;
  bool is_known = begin == 0;
  while (begin < word.size()) {
    int32_t node = begin == 0 ? 0 : continued_, id = kNone;
    size_t end = begin;
    for (size_t i = begin; i < word.size() && node != kNone; ++i) {
      node = child(node, static_cast<uint8_t>(word[i]));
      if (node == kNone) break;
      const int32_t here = id_of_node_[static_cast<size_t>(node)];
      if (here == kNone) continue;
      id = here;
      end = i + 1;
    }
    is_known = id != kNone;
    if (!is_known) break;
    tokens.push_back({id, source.range(begin, end - 1), whole});
    begin = end;
  }
  if (is_known) return;
  tokens.resize(first_token);
  tokens.push_back({unknown_, whole, whole});
}

}  // namespace syncopate
