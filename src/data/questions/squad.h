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
  // Of every answer of every question: the byte of the context where it is said
  // to begin; empty where that is outside.
  std::vector<std::vector<std::optional<int64_t>>> answer_begins;
  std::string digest;  // of what it was read from, unpacked
};

// NAME in `folder`, or NAME.gz. Errors: Error(kInputMissing), or
// Error(kBadInput) "FILE: data[3].paragraphs[2].qas[0]: what, expected".
SquadText read_squad(const fs::path& folder, const std::string& name);
SquadText parse_squad(const std::string& origin, std::string_view json);

// The generator's vocabulary, and its questions: `stream` tells sets apart.
std::string synthetic_squad_vocabulary();
SquadText make_synthetic_squad(const DataOptions& options,
                               int64_t questions,
                               uint64_t stream);

// What windows are labelled by. Training needs the first answer to stand where
// it is said to, as run_squad does, and leaves the other questions out; a test
// set keeps all, labelled by the first answer that does stand.
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

// The words of a context, split at spaces, by which run_squad locates answers.
std::vector<TextRange> squad_words(std::string_view context);

// Words `begin` to `end` (as squad_words cuts them) of a context that hold an
// answer; empty if they do not hold it: run_squad's test, for which runs of
// white space are alike.
struct WordRange {
  int64_t first, last;
};
std::optional<WordRange> find_answer(std::string_view context,
                                     const std::vector<TextRange>& words,
                                     std::optional<int64_t> begin,
                                     std::string_view answer);

}  // namespace syncopate
