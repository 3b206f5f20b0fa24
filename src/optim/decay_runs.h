// Stretches of a model's range that an optimizer treats the same way: equal
// weight decay, with embedding tables separate.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

#include "optim/optimizer.h"

namespace syncopate {

struct DecayRun {
  int64_t begin, end;  // in the model's range
  float weight_decay;
  int64_t row;  // elements per table row; 0: not a table
};

// optimizer.decay_batchnorm and decay_bias determine what is exempt. With
// `tables_apart`, each tensor of Role::kEmbedding is a run with its row length.
std::vector<DecayRun> decay_runs(const OptimizerOptions& options,
                                 const ParameterTable& table,
                                 bool tables_apart);

// Calls act(run, first, count) for each run that intersects [offset, offset +
// elems): `count` elements starting at `offset + first`. A row that the range
// cuts becomes a run of its own: one row of the length inside the range.
template <typename Act>
void for_runs(const std::vector<DecayRun>& runs,
              int64_t offset,
              int64_t elems,
              const Act& act) {
  for (const DecayRun& run : runs) {
    const int64_t end = std::min(run.end, offset + elems);
    int64_t at = std::max(run.begin, offset);
    const auto take = [&](int64_t until, int64_t row) {
      until = std::min(until, end);
      if (until <= at) return;
      act(DecayRun{at, until, run.weight_decay, row}, at - offset, until - at);
      at = until;
    };
    if (run.row == 0) {
      take(end, 0);
      continue;
    }
    const auto whole_rows = [&](int64_t place) {
      return run.begin + (place - run.begin) / run.row * run.row;
    };
    if (at >= end) continue;
    const int64_t first_whole = whole_rows(at + run.row - 1);
    take(first_whole, std::min(first_whole, end) - at);
    take(whole_rows(end), run.row);
    take(end, end - at);
  }
}

}  // namespace syncopate
