#include "sync/staleness.h"

#include <algorithm>
#include <limits>

namespace syncopate {

// With workers of equal speed nearly all values are below 2 N.
Staleness::Staleness(int workers) : histogram_(4 * workers + 1, 0.0) {}

void Staleness::note(int64_t updates) {
  const auto value = static_cast<double>(updates);
  sum_ += value;
  count_ += 1;
  most_ = std::max(most_, value);
  histogram_[std::min(updates, std::ssize(histogram_) - 1)] += 1;
}

void Staleness::visit_state(StateVisitor& visitor) {
  visitor.visit(Owner::kWorker, "staleness.sum", std::span(&sum_, 1));
  visitor.visit(Owner::kWorker, "staleness.count", std::span(&count_, 1));
  visitor.visit(Owner::kWorker, "staleness.most", std::span(&most_, 1));
  visitor.visit(Owner::kWorker, "staleness.histogram", std::span(histogram_));
}

std::vector<SeriesInfo> Staleness::series() const {
  using Over = SeriesInfo::Over;
  const std::string what =
      "updates by others between a worker's pull and its push, at the first "
      "shard: ";
  return {{.name = "staleness_mean",
           .unit = "updates",
           .description = what + "mean (NaN: no push)",
           .over = Over::kWorkers},
          {.name = "staleness_max",
           .unit = "updates",
           .description = what + "maximum",
           .over = Over::kMax},
          {.name = "staleness",
           .unit = "pushes",
           .description =
               what + "pushes by how many, the last column for that and more",
           .over = Over::kSum,
           .width = std::ssize(histogram_)}};
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
