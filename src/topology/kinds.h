// The constructions behind topology_table(), one file each, and the two
// weighting rules that they share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <set>
#include <vector>

#include "topology/topology.h"

namespace syncopate {

// The columns of a row's entries; includes the diagonal for a self-loop.
using Entries = std::set<int>;

// Gives every entry of the row the same weight.
MixingRow equal_row(const Entries& entries, int rank, double weight);
// Gives entry (i, j) the weight 1 / max(entries of row i, entries of row j),
// and the diagonal the remainder to 1 (Metropolis and Hastings without the
// usual + 1).
MixingRow metropolis_row(const std::function<Entries(int rank)>& entries_of,
                         int rank);

constexpr bool suits_any(int workers) {
  return workers >= 1;
}

struct TopologyKind {
  const char* keyword;
  const char* description;  // one line
  const char* needs;        // "a square, at least 4"
  // Whether the construction gives a symmetric, doubly stochastic matrix.
  bool (*suits)(int workers);
  MixingRow (*row)(int workers, int rank);  // requires suits(workers)
};

extern const TopologyKind kComplete;
extern const TopologyKind kRing;
extern const TopologyKind kTorus;
extern const TopologyKind kExpander;
extern const TopologyKind kMargulis;
extern const TopologyKind kSocial;
extern const TopologyKind kExponential;

// Returns a row of the Kronecker product of `between` and the mean over `group`
// workers. Ranks k * group to (k + 1) * group - 1 form a group.
MixingRow hierarchical_row(const Topology& between, int group, int rank);

}  // namespace syncopate
