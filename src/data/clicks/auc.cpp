// Counts of pairs are multiples of 1/2, which a double holds exactly up to
// 2^52: enough for a hundred million samples of which a quarter is positive.
#include "data/clicks/auc.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace syncopate {
namespace {

using Entry = SortedScores::Entry;

constexpr uint64_t kOrderedValues = uint64_t{1} << 32;
constexpr uint32_t kSignBit = uint32_t{1} << 31;

// Increases with the score; both zeros are equal.
uint32_t ordered_bits(float score) {
  const auto bits = std::bit_cast<uint32_t>(score == 0.0f ? 0.0f : score);
  return (bits & kSignBit) != 0 ? ~bits : bits | kSignBit;
}

auto first_from(const std::vector<Entry>& entries, uint64_t ordered) {
  return std::ranges::lower_bound(entries, ordered, {}, &Entry::ordered);
}

}  // namespace

SortedScores::SortedScores(std::vector<float> scores,
                           std::vector<uint8_t> positive) {
  CHECK(scores.size() == positive.size());
  CHECK(scores.size() <= std::numeric_limits<uint32_t>::max());
  // The label is the lowest bit, so that equal scores stay adjacent.
  std::vector<uint64_t> keys;
  keys.reserve(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i])) {
      has_nan_ = true;
    } else {
      keys.push_back(uint64_t{ordered_bits(scores[i])} << 1 |
                     uint64_t{positive[i] != 0});
    }
  }
  std::sort(keys.begin(), keys.end());
  for (const uint64_t key : keys) {
    const auto ordered = static_cast<uint32_t>(key >> 1);
    if (entries_.empty() || entries_.back().ordered != ordered)
      entries_.push_back({.ordered = ordered, .negative = 0, .positive = 0});
    ++((key & 1) != 0 ? entries_.back().positive : entries_.back().negative);
  }
}

uint64_t SortedScores::part_begin(int part, int parts) {
  CHECK(parts > 0 && part >= 0 && part <= parts);
  const auto count = static_cast<uint64_t>(parts);
  // The smallest x with x * parts / 2^32 >= part.
  return (static_cast<uint64_t>(part) * kOrderedValues + count - 1) / count;
}

std::vector<int64_t> SortedScores::histogram(int parts) const {
  CHECK(parts > 0);
  std::vector<int64_t> counts(static_cast<size_t>(parts));
  for (const Entry& entry : entries_)
    counts[entry.ordered * static_cast<uint64_t>(parts) / kOrderedValues] +=
        int64_t{entry.negative} + entry.positive;
  return counts;
}

std::vector<Entry> SortedScores::entries(uint64_t begin, uint64_t end) const {
  CHECK(begin <= end && end <= kOrderedValues);
  return {first_from(entries_, begin), first_from(entries_, end)};
}

void AucSum::add(std::vector<Entry> entries) {
  std::ranges::sort(entries, {}, &Entry::ordered);
  CHECK(entries.empty() || entries.front().ordered >= next_);
  for (size_t i = 0; i < entries.size();) {
    const uint32_t ordered = entries[i].ordered;
    double negative = 0, positive = 0;
    for (; i < entries.size() && entries[i].ordered == ordered; ++i) {
      negative += entries[i].negative;
      positive += entries[i].positive;
    }
    wins_ += positive * (below_ + 0.5 * negative);
    below_ += negative;
    positive_ += positive;
    next_ = uint64_t{ordered} + 1;
  }
}

double AucSum::value() const {
  if (positive_ * below_ == 0)  // either class is missing
    return std::numeric_limits<double>::quiet_NaN();
  return wins_ / (positive_ * below_);
}

double area_under_curve(std::span<const float> scores,
                        std::span<const uint8_t> positive) {
  const SortedScores sorted({scores.begin(), scores.end()},
                            {positive.begin(), positive.end()});
  if (sorted.has_nan()) return std::numeric_limits<double>::quiet_NaN();
  AucSum sum;
  sum.add(sorted.entries(0, kOrderedValues));
  return sum.value();
}

double log_loss(std::span<const float> logits,
                std::span<const uint8_t> positive) {
  CHECK(logits.size() == positive.size() && !logits.empty());
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double z = positive[i] != 0 ? -double{logits[i]} : logits[i];
    sum += std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z)));
  }
  return sum / static_cast<double>(logits.size());
}

}  // namespace syncopate
