#include "topology/kinds.h"

namespace syncopate {

MixingRow hierarchical_row(const Topology& between, int group, int rank) {
  const int own = rank / group;
  const MixingRow of_group = between.row(own);
  MixingRow row{of_group.self / group, {}};
  // Workers of a group without a self-loop have no edges within it.
  const auto add_group = [&](int number, double weight) {
    if (weight == 0) return;
    for (int other = number * group; other < (number + 1) * group; ++other)
      if (other != rank) row.neighbours.push_back({other, weight / group});
  };
  bool has_own = false;
  for (const auto& [number, weight] : of_group.neighbours) {
    if (!has_own && number > own) {
      add_group(own, of_group.self);
      has_own = true;
    }
    add_group(number, weight);
  }
  if (!has_own) add_group(own, of_group.self);
  return row;
}

}  // namespace syncopate
