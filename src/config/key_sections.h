// The keys of the options that belong to config/ itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/options.h"
#include "keys/key.h"

namespace syncopate {

Keys run_keys();
Keys device_keys();  // of [run]: device, precision and threads
Keys watch_keys();   // of [run]: watchdog, audit and other checks
Keys eval_keys();
Keys checkpoint_keys();
Keys compute_keys();
Keys network_keys();
Keys straggler_keys();
Keys fault_keys();

}  // namespace syncopate
