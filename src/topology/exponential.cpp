#include "topology/kinds.h"

namespace syncopate {
namespace {

MixingRow row(int workers, int rank) {
  Entries entries = {rank};
  // Distances on a cycle are at most half its length.
  for (int distance = 1; distance <= workers / 2; distance *= 2) {
    entries.insert((rank + distance) % workers);
    entries.insert((rank + workers - distance) % workers);
  }
  return equal_row(entries, rank, 1.0 / static_cast<double>(entries.size()));
}

}  // namespace

const TopologyKind kExponential{
    "exponential",
    "at distance 1, 2, 4, 8 ... on the cycle: 1/(degree + 1) each",
    "at least 1", &suits_any, &row};

}  // namespace syncopate
