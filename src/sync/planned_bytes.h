// How much a scheme sends, before anything runs: what `validate` prints.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "sync/scheme.h"

namespace syncopate {

// Payload bytes that a worker sends in a step, the mean over the workers and
// over a long run; `buffer_elems` are BatchNorm's running statistics. nullopt
// where it depends on how the run goes: esync's rounds, sync_switch's phases,
// local_sgd.start, the rows that bsp's batches touch of tables of embeddings
// (at most what dense tables send, and the counts of rows); of dgc after its
// warm-up.
std::optional<double> planned_bytes(const SchemeRequest& request,
                                    int64_t buffer_elems);

}  // namespace syncopate
