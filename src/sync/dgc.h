// Deep gradient compression (Lin et al. 2018), in ChocoSGD's order:
//
//   g_i <- g_i + decay * x
//   each tensor of g_i clipped to a norm of dgc.clip / sqrt(N)
//   d_i = direction of the local optimizer     (momentum)
//   p_i = d_i + e_i
//   q_i = p_i at some coordinates of each tensor, the largest or random ones
//   e_i <- p_i - q_i                           zero where sent; 0 at first
//   m_i <- 0 at these coordinates              with dgc.mask_momentum
//   x   <- x - eta / N * sum_i q_i             in the order of ranks
//
// The fraction dropped grows along dgc.warmup_ratios to compress.ratio, one
// epoch per ratio or all of them within dgc.warmup. With compress.kind = qsgd
// all coordinates are sent, q_i = Q(d_i), and as published there is no memory
// e. Parameters stay bitwise equal on all workers; momentum and BatchNorm's
// running statistics are local.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "optim/decay_runs.h"
#include "sync/compressed_gather.h"
#include "sync/scheme_base.h"

namespace syncopate {

class Dgc final : public SchemeBase {
 public:
  explicit Dgc(const SchemeParts& parts);
  void update(const StepPlan& plan) override;

 private:
  Compressor& compressor_at(int64_t step);
  // Adds weight decay to the gradient and clips each tensor.
  void clip_tensors();

  DgcOptions options_;
  // In the order of the warm-up, followed by the final one.
  std::vector<std::unique_ptr<Compressor>> compressors_;
  std::unique_ptr<CompressedGather> gather_;
  std::span<float> residual_;        // e; empty: no memory
  std::vector<DecayRun> decay_;      // applied before clipping
  DeviceVector<float> clip_factor_;  // for one tensor
};

void check_dgc(const SchemeRequest& request);
std::vector<Key> dgc_keys();
std::optional<double> dgc_bytes(const TrafficPlan& plan);

}  // namespace syncopate
