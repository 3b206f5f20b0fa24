// What the times of messages over a link say about it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace syncopate {

// Returns the seconds per small message: the last of `messages` that are sent
// one after the other arrives after `burst_s`, a single one after `latency_s`.
double message_s(double burst_s, double latency_s, int messages);

// Lets all pairs exchange so many bytes in each direction at the same time, and
// returns the seconds that this took by rank; 0: sits out.
using ExchangeOfAll = std::function<std::vector<double>(int64_t bytes)>;

// Returns the megabits per second and direction of each rank, from the slope
// between two sizes, so that neither a latency nor the start of a transfer
// counts. Exchanges grow until the slowest one, less two latencies, takes 0.4 s
// and 20 latencies, or a larger one would take more than some seconds.
// `latency_s`: by rank, one way.
std::vector<double> mbit_s_of_all(const std::vector<double>& latency_s,
                                  const ExchangeOfAll& exchange);

}  // namespace syncopate
