// Staleness of an asynchronous scheme's gradients as series: mean, maximum and
// histogram.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sync/scheme.h"

namespace syncopate {

class Staleness {
 public:
  explicit Staleness(int workers);
  // Records one push: updates by others since the worker's pull before it.
  void note(int64_t updates);
  void visit_state(StateVisitor& visitor);

  std::vector<SeriesInfo> series() const;
  std::vector<double> take();

 private:
  int64_t bin_width_;
  double sum_ = 0, count_ = 0, most_ = 0;
  std::vector<double> histogram_;
};

}  // namespace syncopate
