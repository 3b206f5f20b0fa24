// The communication graph with its weights: a symmetric, doubly stochastic
// mixing matrix W.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace syncopate {

struct Key;

struct TopologyOptions {
  std::string kind = "ring";
  int64_t group = 2;             // hierarchical: group size; exact mean inside
  std::string between = "ring";  // hierarchical: the topology of the groups
};

struct Neighbour {
  int rank;
  double weight;
};

class Topology {
 public:
  // Neighbours are given row by row, each ascending by rank and without the
  // worker itself; `self` is the diagonal. CHECKs that W is symmetric and
  // doubly stochastic to 1e-12.
  Topology(std::string kind,
           std::vector<double> self,
           std::vector<std::vector<Neighbour>> neighbours);

  const std::string& kind() const { return kind_; }
  int size() const { return static_cast<int>(self_.size()); }
  double self_weight(int rank) const { return self_[rank]; }
  const std::vector<Neighbour>& neighbours(int rank) const {
    return neighbours_[rank];
  }
  // Returns the size of the rank's neighbourhood including itself: the factor
  // `graph` of rate scaling.
  int scaling(int rank) const {
    return 1 + static_cast<int>(neighbours_[rank].size());
  }
  // Returns 1 - the second largest |eigenvalue| of W, accurate to about 1e-14;
  // 1 for one worker. O(N^3).
  double spectral_gap() const;

 private:
  std::string kind_;
  std::vector<double> self_;
  std::vector<std::vector<Neighbour>> neighbours_;
};

// Throws a one-line Error(kBadInput) if the construction gives no doubly
// stochastic matrix for so many workers; it names nearby numbers that work.
Topology make_topology(const TopologyOptions& options, int workers);

// Keyword and one-line description, for `list topologies`, keys and tests.
const std::vector<std::pair<std::string, std::string>>& topology_table();
std::vector<Key> topology_keys();  // of [topology]

// Text of `list topologies --workers=N`: each kind's neighbours, weights and
// spectral gap, or why it rejects N.
std::string list_topologies(int workers);
// The part for one kind; Error(kBadInput) if it rejects `workers`.
std::string list_topology(const TopologyOptions& options, int workers);

}  // namespace syncopate
