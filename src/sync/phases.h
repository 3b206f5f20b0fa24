// Sync-Switch's arithmetic: the work of each phase, and the momentum after a
// switch. Pure functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sync/options.h"

namespace syncopate {

// Whether workers step together: such a step is N mini-batches and counts as
// one of train_steps. If each worker goes at its own speed (asp), a worker's
// step is one mini-batch and counts as one.
bool steps_together(const std::string& scheme);

// Returns the worker_steps of each phase; their sum is workers * total_steps.
// By fractions, each phase ends after a whole number of steps of all workers:
//   E_i = N round((f_0 + ... + f_i) S / N)
// By train_steps T (cumulative, as the published --train-steps):
//   L_i = (T_i - T_(i-1)) (N where steps are taken together, else 1)
// A single phase needs neither. With sync_switch.plateau and neither, the first
// phase has all of the work until it passes the rest on. Requires valid
// options.
std::vector<int64_t> phase_lengths(const SyncSwitchOptions& options,
                                   int workers,
                                   int64_t total_steps);

// Throws Error(kBadInput), "KEY: WHAT, expected WHAT", unless order, fractions,
// train_steps, policy and momentum_ramp fit.
void check_phases(const SyncSwitchOptions& options,
                  int workers,
                  int64_t total_steps);

// Returns the rate's factor, where `averaged` workers average their gradients
// (0: a phase without averages) out of `workers`:
//   linear   averaged, or 1
//   t2t      averaged, or 1 / sqrt(workers), as in T2TModel.optimize
//   none     1
double rate_factor(LrRule rule, int averaged, int workers);

// Returns the momentum's factor `steps` (worker_steps / N) after a switch to a
// scheme that applies single gradients, for a ramp of that many steps:
//   keep            1         (the published choice)
//   zero            0
//   scaled          1/N
//   ramp_linear     k/N, k = 1 .. N - 1, equally long; then 1
//   ramp_doubling   1/N, 2/N, 4/N ... below 1, equally long; then 1
double momentum_factor(MomentumRule rule,
                       int workers,
                       double steps,
                       double ramp_steps);

}  // namespace syncopate
