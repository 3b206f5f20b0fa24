#include "topology/kinds.h"

namespace syncopate {
namespace {

int root(int workers) {
  int side = 0;
  while (int64_t{side + 1} * (side + 1) <= workers) ++side;
  return side;
}

bool suits(int workers) {
  return workers >= 4 && root(workers) * root(workers) == workers;
}

// Margulis, Gabber and Galil: on an n x n grid, (x, y) is connected to (x + 2y,
// y), (x + 2y + 1, y), (x, y + 2x) and (x, y + 2x + 1) modulo n. Repeated edges
// count once.
MixingRows rows(int workers) {
  const int n = root(workers);
  Adjacency adjacency(workers);
  for (int x = 0; x < n; ++x) {
    for (int y = 0; y < n; ++y) {
      const int here = x * n + y;
      for (const int there :
           {(x + 2 * y) % n * n + y, (x + 2 * y + 1) % n * n + y,
            x * n + (y + 2 * x) % n, x * n + (y + 2 * x + 1) % n}) {
        adjacency[here].insert(there);
        adjacency[there].insert(here);
      }
    }
  }
  return metropolis_rows(adjacency);
}

}  // namespace

const TopologyKind kMargulis{
    "margulis", "the Margulis-Gabber-Galil expander on a square: 1/max(degree)",
    "a square of at least 4", &suits, &rows};

}  // namespace syncopate
