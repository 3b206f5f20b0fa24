// Sums by parts.collectives, from device to device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "sync/reducer.h"

namespace syncopate {

std::unique_ptr<Reducer> make_device_reducer(const SchemeParts& parts);

}  // namespace syncopate
