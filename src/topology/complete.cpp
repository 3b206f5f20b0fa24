#include "topology/kinds.h"

namespace syncopate {
namespace {

MixingRow row(int workers, int rank) {
  const double weight = 1.0 / workers;
  MixingRow row{weight, {}};
  row.neighbours.reserve(workers - 1);
  for (int j = 0; j < workers; ++j)
    if (j != rank) row.neighbours.push_back({j, weight});
  return row;
}

}  // namespace

const TopologyKind kComplete{"complete",
                             "all workers with each other, 1/N each",
                             "at least 1", &suits_any, &row};

}  // namespace syncopate
