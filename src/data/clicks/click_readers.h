// The readers of click formats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/clicks/click_set.h"

namespace syncopate {

ClickData read_criteo(const DataOptions& options);
ClickData make_synthetic_criteo(const DataOptions& options);

}  // namespace syncopate
