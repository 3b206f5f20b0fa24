// The area under the receiver operating characteristic, exactly.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace syncopate {

// The probability that a positive sample scores higher than a negative one,
// ties counted half (Mann-Whitney): for scores in any order, NaN without both
// kinds of samples. A score of NaN gives NaN.
double area_under_curve(std::span<const float> scores,
                        std::span<const uint8_t> positive);

// The same over samples that lie on several workers, in memory that does not
// grow with all of them: each sorts its own, and ranges of scores are merged
// from the lowest up.
class SortedScores {
 public:
  SortedScores(std::vector<float> scores, std::vector<uint8_t> positive);
  // How many samples have a score whose ordered bits (monotone in the score)
  // lie in part [i] of `parts` equal parts of the 32-bit range.
  std::vector<int64_t> histogram(int parts) const;
  // The first ordered bits of a part; of part [parts]: 2^32.
  static uint64_t part_begin(int part, int parts);
  // Of the samples in ordered bits [begin, end): distinct values, rising, with
  // how many negative and positive samples have it.
  struct Entry {
    uint32_t ordered;
    uint32_t negative, positive;
  };
  std::vector<Entry> entries(uint64_t begin, uint64_t end) const;
  // Whether there are such scores, which are in no entry.
  bool has_nan() const { return has_nan_; }

 private:
  std::vector<Entry> entries_;
  bool has_nan_ = false;
};

// Adds entries in rising order, of all workers together.
class AucSum {
 public:
  // Entries of one range, of any number of workers, in any order. All of them
  // are above those of the ranges before.
  void add(std::vector<SortedScores::Entry> entries);
  double value() const;

 private:
  double below_ = 0;  // negative samples so far
  double positive_ = 0, wins_ = 0;
  uint64_t next_ = 0;  // the least that may follow
};

// The mean of -log(p) of positive samples and -log(1 - p) of negative ones,
// p = sigmoid(logit), without ever rounding p to 0 or 1. At least one sample.
double log_loss(std::span<const float> logits,
                std::span<const uint8_t> positive);

}  // namespace syncopate
