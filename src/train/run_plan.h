// The lengths of a run in steps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "config/config.h"
#include "data/sampler.h"

namespace syncopate {

// All lengths are in steps (worker_steps / N).
struct RunPlan {
  int64_t batches_per_epoch = 0;
  double steps_per_epoch = 0;
  // run.steps (or what run.virtual_limit_s gives) or run.epochs, whichever ends
  // first.
  int64_t total_steps = 0;
  int64_t stop_at = 0;  // <= total_steps
  double horizon = 0;
  std::string limit;  // how run.virtual_limit_s gave total_steps; else empty
  int64_t log_every = 0, eval_every = 0, checkpoint_every = 0;  // 0: at the end
  int64_t audit_every = 0;                                      // 0: never
};

// Whether run.virtual_limit_s has not been resolved to run.steps yet.
bool is_length_open(const RunOptions& run);

// `options` are those of `input`, perhaps with converted lengths; `sampler` is
// null if there is nothing to train on. Throws Error(kBadInput) if a length has
// more than 1e12 steps.
RunPlan make_run_plan(const ParsedInput& input,
                      const Options& options,
                      const Sampler* sampler);

}  // namespace syncopate
