// How far apart the clocks of two ranks are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/endpoint.h"

namespace syncopate {

// Rank 0's clock is this rank's plus offset_s, to within error_s.
struct ClockOffset {
  double offset_s = 0, error_s = 0;
};

// Collective. Rank 0 asks each rank for its time, repeatedly: of the question
// with the shortest round trip T, answered at time t, sent at s and back at r,
// the offset is (s + r) / 2 - t, to within T / 2 (Cristian 1989). Not counted
// as traffic.
ClockOffset measure_clock(Endpoint& endpoint);

}  // namespace syncopate
