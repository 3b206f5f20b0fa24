// The readers of question formats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "data/options.h"
#include "data/questions/squad.h"
#include "data/questions/wordpiece.h"

namespace syncopate {

// A training and a test set as text, read or generated on demand, and their
// tokenizer.
struct QuestionTexts {
  struct Part {
    std::string origin;  // in error messages: a file, or the kind of data
    std::function<SquadText()> read;
    bool is_there = true;  // else read() reports what is missing
  };
  std::string source;  // QuestionData::source
  WordPiece tokenizer;
  Part train, test;
};

inline LetterCase letter_case(const DataOptions& options) {
  return options.lower_case ? LetterCase::kLower : LetterCase::kAsWritten;
}

// Errors: kInputMissing, or kBadInput for invalid options. Errors in a part are
// reported when it is read.
QuestionTexts open_squad(const DataOptions& options);
QuestionTexts open_synthetic_squad(const DataOptions& options);

}  // namespace syncopate
