#include "topology/kinds.h"

namespace syncopate {
namespace {

MixingRows rows(int workers) {
  Adjacency adjacency(workers);
  for (int i = 0; i < workers; ++i) {
    adjacency[i].insert(i);
    // Distances on a cycle are at most half its length.
    for (int distance = 1; distance <= workers / 2; distance *= 2) {
      adjacency[i].insert((i + distance) % workers);
      adjacency[i].insert((i + workers - distance) % workers);
    }
  }
  return equal_rows(adjacency, 1.0 / static_cast<double>(adjacency[0].size()));
}

}  // namespace

const TopologyKind kExponential{
    "exponential",
    "at distance 1, 2, 4, 8 ... on the cycle: 1/(degree + 1) each",
    "at least 1", &suits_any, &rows};

}  // namespace syncopate
