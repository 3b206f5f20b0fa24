// The keys of the options that belong to config/ itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "config/options.h"
#include "keys/key.h"

namespace syncopate {

// Numbers are 0 or more where a key does not ask for more.
inline Keys not_negative(Keys keys) {
  for (Key& key : keys) key.low = std::max(key.low, 0.0);
  return keys;
}

// A resumed run may change all of them.
inline Keys may_all_change(Keys keys) {
  for (Key& key : keys) key.on_resume = OnResume::kMayChange;
  return keys;
}

Keys run_keys();
Keys device_keys();  // of [run]: device, precision and threads
Keys watch_keys();   // of [run]: watchdog, audit and other checks
Keys eval_keys();
Keys checkpoint_keys();
Keys output_keys();
Keys compute_keys();
Keys network_keys();
Keys straggler_keys();
Keys fault_keys();

}  // namespace syncopate
