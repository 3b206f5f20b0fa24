#include "topology/kinds.h"

namespace syncopate {
namespace {

MixingRows rows(int workers) {
  Adjacency adjacency(workers);
  for (int i = 0; i < workers; ++i)
    adjacency[i] = {i, (i + 1) % workers, (i + workers - 1) % workers};
  return equal_rows(adjacency, 1.0 / static_cast<double>(adjacency[0].size()));
}

}  // namespace

const TopologyKind kRing{"ring", "a cycle: itself, left and right, 1/3 each",
                         "at least 1", &suits_any, &rows};

}  // namespace syncopate
