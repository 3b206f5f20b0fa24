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
// y), (x + 2y + 1, y), (x, y + 2x) and (x, y + 2x + 1) modulo n, in both
// directions. Repeated edges count once.
Entries entries_of(int n, int rank) {
  const int x = rank / n, y = rank % n;
  const auto at = [&](int to_x, int to_y) {
    return (to_x + 3 * n) % n * n + (to_y + 3 * n) % n;
  };
  return {at(x + 2 * y, y),     at(x + 2 * y + 1, y), at(x, y + 2 * x),
          at(x, y + 2 * x + 1), at(x - 2 * y, y),     at(x - 2 * y - 1, y),
          at(x, y - 2 * x),     at(x, y - 2 * x - 1)};
}

MixingRow row(int workers, int rank) {
  const int n = root(workers);
  return metropolis_row([n](int other) { return entries_of(n, other); }, rank);
}

}  // namespace

const TopologyKind kMargulis{
    "margulis", "the Margulis-Gabber-Galil expander on a square: 1/max(degree)",
    "a square of at least 4", &suits, &row};

}  // namespace syncopate
