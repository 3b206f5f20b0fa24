#include <algorithm>

#include "topology/kinds.h"

namespace syncopate {
namespace {

// Davis, Gardner and Gardner 1941, "Deep South": which of 14 events (ranks 18
// to 31) each of 18 women (ranks 0 to 17) attended.
const std::vector<std::vector<int>>& attended() {
  static const std::vector<std::vector<int>> events = {
      {18, 19, 20, 21, 22, 23, 25, 26},
      {18, 19, 20, 22, 23, 24, 25},
      {19, 20, 21, 22, 23, 24, 25, 26},
      {18, 20, 21, 22, 23, 24, 25},
      {20, 21, 22, 24},
      {20, 22, 23, 25},
      {22, 23, 24, 25},
      {23, 25, 26},
      {22, 24, 25, 26},
      {24, 25, 26, 29},
      {25, 26, 27, 29},
      {25, 26, 27, 29, 30, 31},
      {24, 25, 26, 27, 29, 30, 31},
      {23, 24, 26, 27, 28, 29, 30, 31},
      {24, 25, 27, 28, 29},
      {25, 26},
      {26, 28},
      {26, 28},
  };
  return events;
}

bool suits(int workers) {
  return workers == 32;
}

Entries entries_of(int rank) {
  const int women = static_cast<int>(attended().size());
  if (rank < women) return {attended()[rank].begin(), attended()[rank].end()};
  Entries entries;
  for (int woman = 0; woman < women; ++woman)
    if (std::ranges::count(attended()[woman], rank) > 0) entries.insert(woman);
  return entries;
}

MixingRow row(int, int rank) {
  return metropolis_row(&entries_of, rank);
}

}  // namespace

const TopologyKind kSocial{
    "social", "Davis's Southern Women, 18 + 14 workers: 1/max(degree)",
    "exactly 32", &suits, &row};

}  // namespace syncopate
