// BERT's tokenizer: text to words (clean, split, lower case without accents),
// words to pieces of a vocabulary.
//
// The rules are those of the published run_squad: BasicTokenizer, then
// WordPiece (Wu et al. 2016; Devlin et al. 2019, google-research/bert
// tokenization.py), where control characters are all of the Unicode categories
// C*. A capital sigma that ends a word becomes a final one; tokenizers that
// lower letter by letter miss that. Nothing in a text becomes a special token:
// "[SEP]" is read as "[", "sep", "]", since punctuation is always split off.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
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
  TextRange text;  // what of the text it stands for, in bytes
  TextRange word;  // the word that it is a piece of: no spaces, no punctuation
};

class WordPiece {
 public:
  // One token a line; its number, from 0, is its id. Errors: Error(kBadInput)
  // "FILE: line N: what, expected", kInputMissing.
  WordPiece(const fs::path& file, LetterCase letter_case);
  // `origin` starts the line of an error.
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

  // Appends the tokens of `text` (UTF-8; broken bytes are left out).
  void tokenize(std::string_view text, std::vector<Token>& tokens) const;

 private:
  struct Letter;
  struct Source;
  static constexpr int32_t kNone = -1;

  void read(const std::string& origin, std::string_view content);
  int32_t special(const std::string& origin, std::string_view name) const;
  // The id of the piece with this spelling: the next one if it is new.
  int32_t insert(std::string_view piece);
  int32_t node_of(std::string_view beginning) const;
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

  // The pieces as a trie of bytes: ids of nodes, and edges in a hash table with
  // open addressing, key node * 256 + byte.
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
