#include "topology/kinds.h"

#include <algorithm>

namespace syncopate {

MixingRow equal_row(const Entries& entries, int rank, double weight) {
  MixingRow row{entries.contains(rank) ? weight : 0.0, {}};
  for (const int j : entries)
    if (j != rank) row.neighbours.push_back({j, weight});
  return row;
}

MixingRow metropolis_row(const std::function<Entries(int rank)>& entries_of,
                         int rank) {
  const Entries own = entries_of(rank);
  MixingRow row{1.0, {}};
  for (const int j : own) {
    if (j == rank) continue;
    const size_t entries = std::max(own.size(), entries_of(j).size());
    row.neighbours.push_back({j, 1.0 / static_cast<double>(entries)});
    row.self -= row.neighbours.back().weight;
  }
  // n times 1/n may leave a rounding error of either sign.
  if (row.self <= 1e-14) row.self = 0;
  return row;
}

}  // namespace syncopate
