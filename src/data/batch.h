// A mini-batch ready for a network: images, questions or clicks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <variant>
#include <vector>

#include "tensor/tensor.h"

namespace syncopate {

// What one sample looks like, and how many values there are to tell apart.
// bytes() is the size of its tensors in a Batch, without the labels.
struct ImageSpec {
  int64_t C = 0, H = 0, W = 0;
  int64_t classes = 0;
  int64_t bytes() const { return 4 * C * H * W; }
  bool operator==(const ImageSpec&) const = default;
};
struct QuestionSpec {
  int64_t vocabulary = 0;  // token ids are below
  int64_t max_length = 0;  // tokens of the longest sample
  int64_t bytes() const { return 4 * 4 * max_length; }
  bool operator==(const QuestionSpec&) const = default;
};
struct ClickSpec {
  std::vector<int64_t> rows;  // of each field's part of the tables
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

// Which members are used depends on what a sample is; the others have no data.
struct Batch {
  int64_t samples = 0;      // N, may be less than planned at the end of a pass
  ConstTensor images = {};  // (N, C, H, W) fp32 NHWC, normalised
  // (N) i32: class, or 1 for a click. (N, 2) i32: positions of the first and
  // the last token of the answer in the sequence; 0, 0 ([CLS]) where the
  // sequence does not hold it.
  ConstTensor labels = {};

  // Questions: T tokens, all samples end to end (ops/sequences.h).
  ConstTensor tokens = {};     // (T) i32
  ConstTensor segments = {};   // (T) i32: 0 question, 1 context
  ConstTensor positions = {};  // (T) i32: place in the sequence
  ConstTensor sequences = {};  // (T) i32: which sample
  ConstTensor offsets = {};    // (N + 1) i32
  int64_t max_length = 0;      // tokens of the longest

  // Clicks.
  ConstTensor rows =
      {};  // (N, F) i32: of the tables, field f behind field f - 1

  // The address of the input that recorded work reads. Batches of questions are
  // never recorded: their shapes change.
  const void* recorded_input() const {
    return images.data != nullptr ? images.data : rows.data;
  }
  // All of them, for copying a batch as a whole.
  std::array<ConstTensor*, 8> tensors() {
    return {&labels,    &images,    &tokens,  &segments,
            &positions, &sequences, &offsets, &rows};
  }
};

}  // namespace syncopate
