// Deep gradient compression (Lin et al. 2018), with ChocoSGD's order of things:
//
//   g_i clipped to |g_i| <= dgc.clip / sqrt(N)
//   d_i = direction of the local optimizer     (weight decay, momentum)
//   p_i = d_i + e_i
//   q_i = p_i at some coordinates of each tensor, the largest or random ones
//   e_i <- p_i - q_i                           zero where sent; e_i = 0 at
//   first m_i <- 0 at these coordinates              dgc.mask_momentum x   <- x
//   - eta / N * sum_i q_i             in the order of ranks
//
// The share that is dropped grows from epoch to epoch along dgc.warmup_ratios
// to compress.ratio. All parameters stay equal to the bit; momentum and
// BatchNorm's running statistics are each worker's own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sync/compressed_gather.h"
#include "sync/scheme_base.h"

namespace syncopate {

class Dgc final : public SchemeBase {
 public:
  explicit Dgc(const SchemeParts& parts);
  void update(const Plan& plan) override;
  void visit_state(StateVisitor& visitor) override;

 private:
  Compressor& compressor_at(int64_t step);
  const float* local_clip();

  DgcOptions options_;
  // One an epoch of the warm-up, then the one that stays.
  std::vector<std::unique_ptr<Compressor>> compressors_;
  std::unique_ptr<CompressedGather> gather_;
  DeviceVector<float> residual_;  // e
  DeviceVector<float> clip_factor_;
};

std::unique_ptr<Scheme> make_dgc(const SchemeParts& parts);
std::string dgc_obstacle(const SchemeRequest& request);

}  // namespace syncopate
