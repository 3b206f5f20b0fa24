#include "topology/kinds.h"

namespace syncopate {
namespace {

// Returns the shorter side of the grid: the largest divisor up to the square
// root.
int short_side(int workers) {
  int side = 1;
  for (int64_t d = 2; d * d <= workers; ++d)
    if (workers % d == 0) side = static_cast<int>(d);
  return side;
}

// With a side of 1 or 2, two neighbours coincide and rows sum to less than 1.
bool suits(int workers) {
  return short_side(workers) >= 3;
}

MixingRow row(int workers, int rank) {
  const int height = short_side(workers);
  const int width = workers / height;
  const int y = rank / width, x = rank % width;
  const auto at = [&](int dy, int dx) {
    return (y + dy + height) % height * width + (x + dx + width) % width;
  };
  const std::vector<int> around = {at(0, 1), at(1, 0), at(-1, 0), at(0, -1)};
  Entries entries(around.begin(), around.end());
  entries.insert(rank);
  MixingRow row = equal_row(entries, rank, 1.0 / 5.0);
  row.receivers = around;  // all workers in the same direction at a time
  return row;
}

}  // namespace

const TopologyKind kTorus{
    "torus", "a periodic grid, as square as N allows: 1/5 each",
    "sides of at least 3 in its squarest grid", &suits, &row};

}  // namespace syncopate
