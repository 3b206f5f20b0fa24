// Ends a program whose test hangs, and names the test.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace syncopate {

// From now on, a test that runs longer than `limit_s` ends the process with
// code 124 after one line on stderr that starts with `prefix`.
void start_watchdog(double limit_s, const std::string& prefix);

}  // namespace syncopate
