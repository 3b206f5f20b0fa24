#include "sync/staleness.h"

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "tensor/visit_numbers.h"

namespace syncopate {

namespace {

// A bin per value up to so many, so that a row of N workers does not take
// N * N numbers.
constexpr int kMostBins = 1024;

}  // namespace

// With workers of equal speed nearly all values are below 2 N.
Staleness::Staleness(int workers)
    : bin_width_((4 * int64_t{workers} + kMostBins - 1) / kMostBins),
      histogram_((4 * workers + bin_width_ - 1) / bin_width_ + 1, 0.0) {}

void Staleness::note(int64_t updates) {
  const auto value = static_cast<double>(updates);
  sum_ += value;
  count_ += 1;
  most_ = std::max(most_, value);
  histogram_[std::min(updates / bin_width_, std::ssize(histogram_) - 1)] += 1;
}

void Staleness::visit_state(StateVisitor& visitor) {
  visit_number(visitor, Owner::kWorker, "staleness.sum", sum_);
  visit_number(visitor, Owner::kWorker, "staleness.count", count_);
  visit_number(visitor, Owner::kWorker, "staleness.most", most_);
  visitor.visit(Owner::kWorker, "staleness.histogram", std::span(histogram_));
}

std::vector<SeriesInfo> Staleness::series() const {
  using Over = SeriesInfo::Over;
  const std::string what =
      "updates by others between a worker's pull and its push, at the first "
      "shard: ";
  const std::string bins =
      bin_width_ > 1 ? fmt::format(", {} values to a column", bin_width_) : "";
  return {{"staleness_mean", "updates", what + "mean (NaN: no push)",
           Over::kWorkers},
          {"staleness_max", "updates", what + "maximum", Over::kMax},
          {"staleness", "pushes",
           what + "pushes by how many" + bins +
               ", the last column for that and more",
           Over::kSum, std::ssize(histogram_)}};
}

std::vector<double> Staleness::take() {
  std::vector<double> values = {
      count_ > 0 ? sum_ / count_ : std::numeric_limits<double>::quiet_NaN(),
      most_};
  values.insert(values.end(), histogram_.begin(), histogram_.end());
  sum_ = count_ = most_ = 0;
  std::fill(histogram_.begin(), histogram_.end(), 0.0);
  return values;
}

}  // namespace syncopate
