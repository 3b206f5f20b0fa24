// Questions answered by a span of their context (SQuAD 1.1), and the windows of
// tokens that a network reads. A sample is a window.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/options.h"

namespace syncopate {

struct Question {
  std::string id;
  std::string text;
  int64_t context = 0;               // index into QuestionSet::contexts
  std::vector<std::string> answers;  // each of them is right
};

// [CLS] question [SEP] a window of the context [SEP]
struct Window {
  int64_t question = 0;     // index; windows of a question are adjacent
  int64_t first_token = 0;  // index into QuestionSet::tokens
  int32_t length = 0;
  int32_t context_at = 0;  // position of the first token of the context
  // Positions of the answer's first and last token; 0, 0 if the window does not
  // contain all of it.
  int32_t answer_first = 0, answer_last = 0;
};

// A range of bytes of a text.
struct TextRange {
  int32_t begin = 0, end = 0;
};

struct QuestionSet {
  std::vector<std::string> contexts;
  std::vector<Question> questions;
  std::vector<Window> windows;
  std::vector<int32_t> tokens;  // of all windows, end to end
  // For each token of a window, the range of the word that contains it, because
  // answers consist of whole words; empty before context_at and for the last
  // [SEP].
  std::vector<TextRange> words;
  // For each token, whether this is the window that shows it with the most
  // context on both sides. An answer may begin only at such a token.
  std::vector<bool> is_max_context;

  int64_t samples() const { return std::ssize(windows); }
  int64_t longest() const;       // tokens
  double mean_length() const;    // tokens
  int64_t memory_bytes() const;  // of all of the above
  // Windows of one question as a range of samples.
  std::span<const Window> windows_of(int64_t question) const;

  std::vector<int64_t> first_window;  // (questions + 1)
};

struct QuestionData {
  QuestionSet train, test;
  int64_t vocabulary = 0;  // number of tokens; every id is below it
  std::string vocabulary_digest;
  // Training questions left out of `train` because their answer is not where
  // the file places it in the context.
  int64_t left_out = 0;
  std::string source;  // "squad /path", for log and provenance
  std::string digest;  // XXH3-128 of the texts, the vocabulary and the options
};

enum class QuestionParts : uint8_t { kBoth, kTest };

// Reads (squad) or generates (synthetic_squad) questions and tokenizes them.
// kTest leaves `train` empty, and so does options.trained.is_used where there
// is no training set. The result does not depend on `threads`.
// Errors: kInputMissing, or kBadInput "FILE: where: what, expected".
QuestionData load_questions(const DataOptions& options,
                            int threads,
                            QuestionParts parts = QuestionParts::kBoth);

// A batch of windows on the host: `samples` are indices of windows.
struct QuestionBatch {
  std::vector<int32_t> labels, tokens, segments, positions, sequences, offsets;
  int64_t max_length = 0;
  void fill(const QuestionSet& set, std::span<const int64_t> samples);
  Batch view() const;
};

}  // namespace syncopate
