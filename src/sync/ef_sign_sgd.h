// Sign compression with error feedback (Karimireddy et al. 2019, algorithm 2),
// with all workers' messages at every worker:
//
//   d_i = direction of the local optimizer     (weight decay, momentum)
//   p_i = d_i + e_i
//   q_i = |p_i|_1 / elements * sign(p_i)       by tensor
//   e_i <- p_i - q_i                           e_i = 0 at first
//   x   <- x - eta / N * sum_i q_i             in the order of ranks
//
// The memory e does not include the rate. Parameters stay bitwise equal on all
// workers; momentum and BatchNorm's running statistics are local.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sync/compressed_gather.h"
#include "sync/scheme_base.h"

namespace syncopate {

class EfSignSgd final : public SchemeBase {
 public:
  explicit EfSignSgd(const SchemeParts& parts);
  void update(const StepPlan& plan) override;

 private:
  std::unique_ptr<Compressor> sign_;
  CompressedGather gather_;
  std::span<float> residual_;  // e
};

void check_ef_sign_sgd(const SchemeRequest& request);
std::optional<double> ef_sign_sgd_bytes(const TrafficPlan& plan);

}  // namespace syncopate
