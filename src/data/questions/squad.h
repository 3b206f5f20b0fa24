// SQuAD 1.1 as read from its files or generated, and the windows made from it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "data/questions/question_set.h"
#include "data/questions/wordpiece.h"

namespace syncopate {

struct SquadText {
  std::vector<std::string> contexts;
  std::vector<Question> questions;
  // By question and answer: the byte of the context at which the file says that
  // the answer begins; empty if that lies outside the context.
  std::vector<std::vector<std::optional<int64_t>>> answer_begins;
  std::string digest;  // of the unpacked file, or of the generator's inputs
};

// Whether each question needs an answer.
enum class Answers : uint8_t { kRequired, kOptional };

// Reads NAME in `folder`, or NAME.gz. Errors: Error(kInputMissing), or
// Error(kBadInput) "FILE: data[3].paragraphs[2].qas[0]: what, expected".
SquadText read_squad(const fs::path& folder,
                     const std::string& name,
                     Answers answers = Answers::kRequired);
SquadText parse_squad(const std::string& origin,
                      std::string_view json,
                      Answers answers = Answers::kRequired);

// The generator's vocabulary, and questions in it. Different `stream`s give
// independent sets.
std::string synthetic_squad_vocabulary();
SquadText make_synthetic_squad(const DataOptions& options,
                               int64_t questions,
                               uint64_t stream);

// As in run_squad, a training set drops questions whose first answer is not in
// the context at the place that the file gives. A test set keeps all questions
// and labels each by its first answer that is where the file says.
enum class SquadUse { kTrain, kTest };
struct SquadWindows {
  QuestionSet set;
  int64_t left_out = 0;
};
SquadWindows make_windows(SquadText text,
                          const WordPiece& tokenizer,
                          const DataOptions& options,
                          SquadUse use,
                          int threads);

// Splits a context at white space into the words by which run_squad locates
// answers.
std::vector<TextRange> squad_words(std::string_view context);

struct WordRange {
  int64_t first, last;  // inclusive
};
// The range of `words` (from squad_words) that contains the answer which begins
// at byte `begin` of the context; empty if the answer is not there. The texts
// are compared as in run_squad, where all runs of white space are equal.
std::optional<WordRange> find_answer(std::string_view context,
                                     const std::vector<TextRange>& words,
                                     std::optional<int64_t> begin,
                                     std::string_view answer);

}  // namespace syncopate
