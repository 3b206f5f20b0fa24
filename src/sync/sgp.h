// Stochastic gradient push (Assran et al. 2019, algorithm 1) over a directed
// exponential graph with one peer per step: in step t a worker sends to the one
// 2^(t mod ceil(log2 N)) ranks ahead.
//
//   x_i <- x_i - eta d(z_i)
//   x_i <- x_i / 2 + x_j / 2,   w_i <- w_i / 2 + w_j / 2     j sends to i
//   z_i  = x_i / w_i
//
// The replica is z, the de-biased model at which gradients are taken and which
// is evaluated; the numerator is w z, and w starts at 1. Columns of the mixing
// matrix sum to 1, so the sum of all numerators is preserved and the sum of all
// w is N. On this graph everyone gets one message per round, so w is 1 after
// each. With sync.wire = bf16 a worker keeps what rounding did not send.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sync/exchange.h"
#include "sync/scheme_base.h"

namespace syncopate {

class Sgp final : public SchemeBase {
 public:
  explicit Sgp(const SchemeParts& parts);
  void enter() override;
  void update(const StepPlan& plan) override;
  std::vector<SeriesInfo> series() const override;
  std::vector<double> take_series() override { return {weight_}; }

 private:
  NeighbourExchange exchange_;
  int64_t round_ = 0;
  double weight_ = 1;  // w
};

std::optional<double> sgp_bytes(const TrafficPlan& plan);

}  // namespace syncopate
