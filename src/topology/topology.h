// The communication graph with its weights: a symmetric, doubly stochastic
// mixing matrix W.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
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

// A row of W. Neighbours are ascending by rank, without the worker itself.
struct MixingRow {
  double self;  // the diagonal
  std::vector<Neighbour> neighbours;
  // The neighbours' ranks in the order in which to send to them, so that, where
  // the graph permits it, no worker receives two messages at once. Empty in a
  // kind's row: upwards from the worker's own rank, which suits every graph
  // that looks the same from all ranks.
  std::vector<int> receivers = {};
};

// Rows are computed when they are asked for, so that N workers of a process do
// not hold N * N weights.
class Topology {
 public:
  using RowOf = std::function<MixingRow(int rank)>;
  Topology(std::string kind, int size, RowOf row_of)
      : kind_(std::move(kind)), size_(size), row_of_(std::move(row_of)) {}

  const std::string& kind() const { return kind_; }
  int size() const { return size_; }
  // CHECKs that the row has ascending neighbours and sums to 1 within 1e-12.
  MixingRow row(int rank) const;
  double self_weight(int rank) const { return row(rank).self; }
  std::vector<Neighbour> neighbours(int rank) const {
    return row(rank).neighbours;
  }
  // Returns the size of the rank's neighbourhood including itself: the factor
  // `graph` of rate scaling.
  int scaling(int rank) const {
    return 1 + static_cast<int>(row(rank).neighbours.size());
  }
  // Returns 1 - the second largest |eigenvalue| of W, accurate to about 1e-14;
  // 1 for one worker. O(N^3). CHECKs that W is symmetric to 1e-12.
  double spectral_gap() const;

 private:
  std::string kind_;
  int size_;
  RowOf row_of_;
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
