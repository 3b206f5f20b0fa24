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
// equal among the active workers. State that differs between those (the moving
// average and, with `own_statistics`, BatchNorm's statistics) is set to their
// mean; the mean over all workers then equals that over the active ones. `kind`
// is that of the messages: kControl where nothing may take time.
void fill_removed(Context& context,
                  Endpoint& endpoint,
                  Replica& replica,
                  const std::vector<int64_t>& removed,
                  bool own_statistics,
                  Traffic kind);

}  // namespace syncopate
