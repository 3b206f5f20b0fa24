// The constructions behind topology_table(), a file each, and the two rules of
// weights that they share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <vector>

#include "topology/topology.h"

namespace syncopate {

// What the constructor of Topology takes.
struct MixingRows {
  std::vector<double> self;
  std::vector<std::vector<Neighbour>> neighbours;
};

// Row by row the columns of the entries; the diagonal where there is a loop.
using Adjacency = std::vector<std::set<int>>;

// The same weight for every entry.
MixingRows equal_rows(const Adjacency& adjacency, double weight);
// 1 / max(entries of row i, entries of row j), and on the diagonal what is
// missing to 1 (Metropolis and Hastings without the usual + 1).
MixingRows metropolis_rows(const Adjacency& adjacency);

struct TopologyKind {
  const char* keyword;
  const char* description;  // one line
  const char* needs;        // "a square, at least 4"
  // The construction gives a symmetric, doubly stochastic matrix.
  bool (*suits)(int workers);
  MixingRows (*rows)(int workers);  // of a number that suits
};

extern const TopologyKind kComplete;
extern const TopologyKind kRing;
extern const TopologyKind kTorus;
extern const TopologyKind kExpander;
extern const TopologyKind kMargulis;
extern const TopologyKind kSocial;
extern const TopologyKind kExponential;

// Kronecker product of `between` and the mean over `group` workers. Ranks k *
// group to (k + 1) * group - 1 are a group.
MixingRows hierarchical_rows(const Topology& between, int group);

}  // namespace syncopate
