// Wall time: monotonic for durations, UTC for people.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace syncopate {

double monotonic_s();   // seconds since some fixed moment
std::string utc_now();  // "2026-11-20T09:10:11Z"

}  // namespace syncopate
