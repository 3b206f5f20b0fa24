// What a worker that Sync-Switch's elastic policy has removed holds where the
// workers meet. It has taken no steps, but evaluations, checkpoints and changes
// of scheme use the means over all workers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "sync/scheme.h"

namespace syncopate {

// Collective among all workers; changes only those for which `removed`, by
// rank, is not 0. They get the parameters and the optimizer's state, which are
// equal among the others. Where others have values of their own, that is in the
// moving average and with `own_statistics` in BatchNorm's statistics, they get
// the mean of these, so that the mean over all workers is that of those who
// stayed.
void fill_removed(Context& context,
                  Endpoint& endpoint,
                  Replica& replica,
                  const std::vector<int64_t>& removed,
                  bool own_statistics);

}  // namespace syncopate
