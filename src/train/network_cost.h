// What messages cost in virtual time, from [network] and [stragglers].
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/world.h"
#include "train/engine.h"

namespace syncopate {

// The engine must outlive the result: links may slow down in certain steps.
NetworkCost network_cost_of(const Engine& engine);

}  // namespace syncopate
