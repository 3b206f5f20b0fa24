// The constructions behind topology_table(), one file each, and the two
// weighting rules that they share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <vector>

#include "topology/topology.h"

namespace syncopate {

// Arguments of Topology's constructor.
struct MixingRows {
  std::vector<double> self;
  std::vector<std::vector<Neighbour>> neighbours;
};

// The columns of each row's entries; includes the diagonal for a self-loop.
using Adjacency = std::vector<std::set<int>>;

// Gives every entry the same weight.
MixingRows equal_rows(const Adjacency& adjacency, double weight);
// Gives entry (i, j) the weight 1 / max(entries of row i, entries of row j),
// and the diagonal the remainder to 1 (Metropolis and Hastings without the
// usual + 1).
MixingRows metropolis_rows(const Adjacency& adjacency);

constexpr bool suits_any(int workers) {
  return workers >= 1;
}

struct TopologyKind {
  const char* keyword;
  const char* description;  // one line
  const char* needs;        // "a square, at least 4"
  // Whether the construction gives a symmetric, doubly stochastic matrix.
  bool (*suits)(int workers);
  MixingRows (*rows)(int workers);  // requires suits(workers)
};

extern const TopologyKind kComplete;
extern const TopologyKind kRing;
extern const TopologyKind kTorus;
extern const TopologyKind kExpander;
extern const TopologyKind kMargulis;
extern const TopologyKind kSocial;
extern const TopologyKind kExponential;

// Returns the Kronecker product of `between` and the mean over `group` workers.
// Ranks k * group to (k + 1) * group - 1 form a group.
MixingRows hierarchical_rows(const Topology& between, int group);

}  // namespace syncopate
