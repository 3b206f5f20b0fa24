#include "topology/kinds.h"

namespace syncopate {
namespace {

MixingRow row(int workers, int rank) {
  const Entries entries = {rank, (rank + 1) % workers,
                           (rank + workers - 1) % workers};
  return equal_row(entries, rank, 1.0 / static_cast<double>(entries.size()));
}

}  // namespace

const TopologyKind kRing{"ring", "a cycle: itself, left and right, 1/3 each",
                         "at least 1", &suits_any, &row};

}  // namespace syncopate
