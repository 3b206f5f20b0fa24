// What a worker has after sums: values, clock, waiting times and traffic.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "comm/endpoint.h"
#include "sync/scheme.h"

namespace syncopate::test {

struct Outcome {
  std::vector<std::vector<float>> values;  // by round, or of the last
  Time clock = 0;
  SyncTimes times;
  int64_t bytes = 0, messages = 0;

  // Takes the clock and the traffic.
  void end(Endpoint& endpoint) {
    clock = endpoint.now();
    bytes = endpoint.traffic().bytes_sent[0];
    messages = endpoint.traffic().messages_sent[0];
  }
};

// To the bit.
inline void expect_same(const Outcome& a, const Outcome& b) {
  ASSERT_EQ(a.values.size(), b.values.size());
  for (size_t round = 0; round < a.values.size(); ++round) {
    ASSERT_EQ(a.values[round].size(), b.values[round].size());
    EXPECT_EQ(std::memcmp(a.values[round].data(), b.values[round].data(),
                          a.values[round].size() * sizeof(float)),
              0)
        << "round " << round;
  }
  EXPECT_EQ(a.clock, b.clock);
  EXPECT_EQ(a.times.exposed_s, b.times.exposed_s);
  EXPECT_EQ(a.times.overlapped_s, b.times.overlapped_s);
  EXPECT_EQ(a.times.wait_s, b.times.wait_s);
  EXPECT_EQ(a.bytes, b.bytes);
  EXPECT_EQ(a.messages, b.messages);
}

}  // namespace syncopate::test
