// Naive embedding look-up and its gradient in double precision.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reference/reference.h"

namespace syncopate::reference {

// y[t] += table[ids[t]], rows of D.
void add_embedding(Values& y,
                   int64_t D,
                   const Values& table,
                   const Values& ids);

// dtable[ids[t]] += dy[t], in order of t.
void add_embedding_gradient(Values& dtable,
                            int64_t D,
                            const Values& dy,
                            const Values& ids);

}  // namespace syncopate::reference
