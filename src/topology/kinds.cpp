#include "topology/kinds.h"

#include <algorithm>

namespace syncopate {

MixingRows equal_rows(const Adjacency& adjacency, double weight) {
  MixingRows rows;
  for (int i = 0; i < static_cast<int>(adjacency.size()); ++i) {
    rows.self.push_back(adjacency[i].contains(i) ? weight : 0.0);
    auto& row = rows.neighbours.emplace_back();
    for (const int j : adjacency[i])
      if (j != i) row.push_back({j, weight});
  }
  return rows;
}

MixingRows metropolis_rows(const Adjacency& adjacency) {
  MixingRows rows;
  for (int i = 0; i < static_cast<int>(adjacency.size()); ++i) {
    double missing = 1.0;
    auto& row = rows.neighbours.emplace_back();
    for (const int j : adjacency[i]) {
      if (j == i) continue;
      const size_t entries = std::max(adjacency[i].size(), adjacency[j].size());
      row.push_back({j, 1.0 / static_cast<double>(entries)});
      missing -= row.back().weight;
    }
    // n times 1/n may leave a rounding error of either sign.
    rows.self.push_back(missing > 1e-14 ? missing : 0.0);
  }
  return rows;
}

}  // namespace syncopate
