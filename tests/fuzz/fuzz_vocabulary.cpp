// WordPiece vocabularies, and any text through the tokenizer: an input is a
// vocabulary, a NUL byte, and a text (itself, where there is no NUL).
#include <algorithm>

#include "data/questions/wordpiece.h"
#include "fuzz.h"

namespace syncopate {
namespace {

void use(std::string_view vocabulary,
         std::string_view text,
         LetterCase letter_case) {
  const WordPiece tokenizer("words", vocabulary, letter_case);
  std::vector<Token> tokens;
  tokenizer.tokenize(text, tokens);
  int32_t begin = 0;
  for (const Token& token : tokens) {
    if (token.id < 0 || token.id >= tokenizer.size())
      fuzz::found("an id outside the vocabulary");
    const auto& [word, piece] = std::pair(token.word, token.text);
    if (word.begin < begin || piece.begin < word.begin ||
        piece.end < piece.begin || word.end < piece.end ||
        word.end > std::ssize(text))
      fuzz::found("a token outside its word");
    begin = word.begin;
  }
}

}  // namespace
}  // namespace syncopate

void syncopate::fuzz::take(std::string_view input) {
  const std::string_view vocabulary = input.substr(0, input.find('\0'));
  const std::string_view text = vocabulary.size() < input.size()
                                    ? input.substr(vocabulary.size() + 1)
                                    : input;
  for (const LetterCase letter_case :
       {LetterCase::kLower, LetterCase::kAsWritten})
    accept_or_refuse("words: ", [&] { use(vocabulary, text, letter_case); });
}
