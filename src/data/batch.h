// A mini-batch ready for a network: images, questions or clicks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <variant>
#include <vector>

#include "tensor/tensor.h"

namespace syncopate {

// The shape of one sample, and how many classes, tokens or rows exist.
// bytes() is the size of its tensors in a Batch, without the labels.
struct ImageSpec {
  int64_t C = 0, H = 0, W = 0;
  int64_t classes = 0;
  int64_t elems() const { return C * H * W; }
  int64_t bytes() const { return 4 * elems(); }
  bool operator==(const ImageSpec&) const = default;
};
struct QuestionSpec {
  int64_t vocabulary = 0;  // token ids are less than this
  int64_t max_length = 0;  // in tokens, of the longest sample
  int64_t bytes() const { return 4 * 4 * max_length; }
  bool operator==(const QuestionSpec&) const = default;
};
struct ClickSpec {
  std::vector<int64_t> rows;  // by field, of its part of the tables
  int64_t fields() const { return std::ssize(rows); }
  int64_t total_rows() const {
    int64_t total = 0;
    for (const int64_t of_field : rows) total += of_field;
    return total;
  }
  int64_t bytes() const { return 4 * fields(); }
  bool operator==(const ClickSpec&) const = default;
};
using SampleSpec = std::variant<ImageSpec, QuestionSpec, ClickSpec>;

// The kind of sample decides which members are used; the others have no data.
struct Batch {
  int64_t samples = 0;      // N, may be less than planned at the end of a pass
  ConstTensor images = {};  // (N, C, H, W) fp32 NHWC, normalised
  // Images: (N) i32, the class. Clicks: (N) i32, 1 if clicked. Questions:
  // (N, 2) i32, the positions of the answer's first and last token in the
  // sequence, or 0, 0 ([CLS]) if the sequence does not contain the answer.
  ConstTensor labels = {};

  // Questions: the T tokens of all samples, end to end (ops/sequences.h).
  ConstTensor tokens = {};     // (T) i32
  ConstTensor segments = {};   // (T) i32: 0 question, 1 context
  ConstTensor positions = {};  // (T) i32: position in the sequence
  ConstTensor sequences = {};  // (T) i32: index of the sample
  ConstTensor offsets = {};    // (N + 1) i32
  int64_t max_length = 0;      // in tokens, of the longest sequence

  // Clicks.
  ConstTensor rows =
      {};  // (N, F) i32: rows of the tables, which follow one another

  // The address of the input that recorded work reads. Work on questions is
  // never recorded because the shapes of its batches change.
  const void* recorded_input() const {
    return images.data != nullptr ? images.data : rows.data;
  }
  // All tensors, for copying a whole batch.
  std::array<ConstTensor*, 8> tensors() {
    return {&labels,    &images,    &tokens,  &segments,
            &positions, &sequences, &offsets, &rows};
  }
};

}  // namespace syncopate
