#include "topology/kinds.h"

namespace syncopate {

MixingRows hierarchical_rows(const Topology& between, int group) {
  MixingRows rows;
  const int workers = between.size() * group;
  for (int rank = 0; rank < workers; ++rank) {
    const int own = rank / group;
    auto& row = rows.neighbours.emplace_back();
    // Workers of a group without a self-loop have no edges within it.
    const auto add_group = [&](int number, double weight) {
      if (weight == 0) return;
      for (int other = number * group; other < (number + 1) * group; ++other)
        if (other != rank) row.push_back({other, weight / group});
    };
    bool has_own = false;
    for (const auto& [number, weight] : between.neighbours(own)) {
      if (!has_own && number > own) {
        add_group(own, between.self_weight(own));
        has_own = true;
      }
      add_group(number, weight);
    }
    if (!has_own) add_group(own, between.self_weight(own));
    rows.self.push_back(between.self_weight(own) / group);
  }
  return rows;
}

}  // namespace syncopate
