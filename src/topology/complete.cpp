#include "topology/kinds.h"

namespace syncopate {
namespace {

MixingRows rows(int workers) {
  MixingRows rows;
  const double weight = 1.0 / workers;
  rows.self.assign(workers, weight);
  rows.neighbours.resize(workers);
  for (int i = 0; i < workers; ++i) {
    rows.neighbours[i].reserve(workers - 1);
    for (int j = 0; j < workers; ++j)
      if (j != i) rows.neighbours[i].push_back({j, weight});
  }
  return rows;
}

}  // namespace

const TopologyKind kComplete{"complete", "everyone with everyone, 1/N each",
                             "at least 1", &suits_any, &rows};

}  // namespace syncopate
