// BERT's tokenizer. It splits text into words (cleaned, in lower case, without
// accents) and words into the pieces of a vocabulary.
//
// The rules are those of BasicTokenizer and WordpieceTokenizer of Hugging
// Face's transformers (WordPiece: Wu et al. 2016; Devlin et al. 2019). Words of
// more than 100 letters are unknown, and control characters are those of the
// Unicode categories C*; google-research/bert's tokenization.py, from which
// those rules derive, has 200 letters and the categories Cc and Cf. A capital
// sigma at the end of a word becomes a final sigma, which tokenizers that
// convert letter by letter miss. Text never yields special tokens: "[SEP]"
// becomes "[", "sep", "]", because punctuation is always split off.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "data/questions/question_set.h"

namespace syncopate {

enum class LetterCase { kLower, kAsWritten };  // kLower also strips accents

struct Token {
  int32_t id = 0;
  TextRange text;  // its range in the text, in bytes
  TextRange word;  // the range of the word that contains it
};

class WordPiece {
 public:
  // Reads one token per line; the line number, from 0, is the token's id.
  // Errors: kInputMissing, or kBadInput "FILE: line N: what, expected".
  WordPiece(const fs::path& file, LetterCase letter_case);
  // Error messages begin with `origin`.
  WordPiece(const std::string& origin,
            std::string_view content,
            LetterCase letter_case);

  int64_t size() const { return std::ssize(pieces_); }
  const std::string& piece(int32_t id) const {
    return pieces_[static_cast<size_t>(id)];
  }
  int32_t unknown() const { return unknown_; }           // [UNK]
  int32_t classifier() const { return classifier_; }     // [CLS]
  int32_t separator() const { return separator_; }       // [SEP]
  const std::string& digest() const { return digest_; }  // of the content

  // Appends the tokens of `text` (UTF-8; invalid bytes are skipped).
  void tokenize(std::string_view text, std::vector<Token>& tokens) const;

 private:
  struct Letter;
  struct Source;
  static constexpr int32_t kNone = -1;

  void read(const std::string& origin, std::string_view content);
  int32_t special(const std::string& origin, std::string_view name) const;
  // The id of the piece, which is the next free id if the piece is new.
  int32_t insert(std::string_view piece);
  int32_t node_of(std::string_view beginning) const;
  size_t slot_of(uint32_t key) const;
  int32_t child(int32_t node, uint8_t byte) const;
  int32_t add_child(int32_t node, uint8_t byte);
  void grow();

  void tokenize_ascii(std::string_view text,
                      TextRange range,
                      std::vector<Token>& tokens) const;
  void tokenize_any(std::string_view text,
                    TextRange range,
                    std::vector<Token>& tokens) const;
  void split_punctuation(const std::vector<Letter>& letters,
                         std::vector<Token>& tokens) const;
  void split_word(std::string_view word,
                  int64_t letters,
                  const Source& source,
                  std::vector<Token>& tokens) const;

  LetterCase letter_case_;
  std::vector<std::string> pieces_;
  std::string digest_;
  int32_t unknown_ = kNone, classifier_ = kNone, separator_ = kNone;

  // The pieces form a trie of bytes. Its edges lie in a hash table with open
  // addressing whose key is node * 256 + byte.
  struct Edge {
    uint32_t key = UINT32_MAX;
    int32_t node = kNone;
  };
  std::vector<int32_t> id_of_node_;
  std::vector<Edge> edges_;
  int64_t num_edges_ = 0;
  int32_t continued_ = kNone;  // the node of "##"
};

}  // namespace syncopate
