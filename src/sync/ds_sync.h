// Divide-and-shuffle synchronization (DS-Sync, arXiv 2007.03298v2): workers
// average their parameters in small groups that are shuffled from step to step,
//
//   x_i <- mean of x_j over j in group_t(i)
//   x_i <- optimizer_i(x_i, g_i)          own gradient, own optimizer state
//
// with the mean before forward, as in the published image classifiers, or after
// the update, as in the language model. t counts steps from the start of the
// epoch or of the run. Groups of a step are disjoint, so a slow worker delays
// only its own group. BatchNorm's running statistics are averaged with the
// parameters or stay local.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "sync/options.h"

namespace syncopate {

// The groups of one phase, in which each rank occurs once.
using Partition = std::vector<std::vector<int>>;

// Returns the m phases, which repeat cyclically; W_p averages over the groups
// of phase p.
//
// - auto, N = k * k > 1: a grid, rank r = (i, j) = (r div k, r mod k). Phase 0
//   has groups of equal i, phase 1 of equal (i + j) mod k: for N = 4 the
//   published {0,1} {2,3} and {0,3} {1,2}.
// - radices: digits of a rank, the first one changing fastest. A group of
//   phase p has all ranks that differ in digit p only. auto, other N: the
//   prime factors, so a prime N has a single group of all.
// - group = g: rank r is in group ((r + p) mod N) div g of phase p, p < g.
//
// W_0 ... W_{m-1} = J / N for the first two: m steps reach exact consensus. The
// third approaches it, because groups of successive phases overlap.
// Error(kBadInput) for radices or a group size that do not fit.
std::vector<Partition> ds_sync_phases(const DsSyncOptions& options,
                                      int workers);

// Returns the phase of a step counted from the start of the run.
int64_t ds_sync_phase(const DsSyncOptions& options,
                      int64_t step,
                      double steps_per_epoch,
                      int64_t num_phases);

}  // namespace syncopate
