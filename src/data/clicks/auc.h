// The exact area under the receiver operating characteristic.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace syncopate {

// The probability that a positive sample scores higher than a negative one,
// with ties counted half (Mann-Whitney). NaN if either class is missing or any
// score is NaN.
double area_under_curve(std::span<const float> scores,
                        std::span<const uint8_t> positive);

// Supports the same computation over the samples of several workers without
// gathering them: each worker sorts its own samples, and ranges of scores are
// merged in ascending order.
class SortedScores {
 public:
  SortedScores(std::vector<float> scores, std::vector<uint8_t> positive);
  // The number of samples whose ordered bits (monotone in the score) lie in
  // each of `parts` equal parts of the 32-bit range.
  std::vector<int64_t> histogram(int parts) const;
  // The first ordered bits of a part; 2^32 if part == parts.
  static uint64_t part_begin(int part, int parts);
  // A distinct score and the number of negative and positive samples that have
  // it. entries() returns those in [begin, end) in ascending order.
  struct Entry {
    uint32_t ordered;
    uint32_t negative, positive;
  };
  std::vector<Entry> entries(uint64_t begin, uint64_t end) const;
  // Whether any score is NaN; such samples are in no entry.
  bool has_nan() const { return has_nan_; }

 private:
  std::vector<Entry> entries_;
  bool has_nan_ = false;
};

// Accumulates the entries of all workers in ascending order.
class AucSum {
 public:
  // Entries of one range from any number of workers, in any order. All of them
  // must lie above those of earlier calls.
  void add(std::vector<SortedScores::Entry> entries);
  double value() const;

 private:
  double below_ = 0;  // number of negative samples so far
  double positive_ = 0, wins_ = 0;
  uint64_t next_ = 0;  // the smallest ordered bits that may follow
};

// The mean of -log(p) over positive and -log(1 - p) over negative samples with
// p = sigmoid(logit), without rounding p to 0 or 1. Needs at least one sample.
double log_loss(std::span<const float> logits,
                std::span<const uint8_t> positive);

}  // namespace syncopate
