// Counts every byte handed to a transport.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace syncopate {

enum class Traffic : uint8_t {
  kPayload,     // what the scheme exchanges
  kBroadcast,   // the initial model
  kEvaluation,  // metrics, averaged models for evaluation
  kControl,     // consensus, clocks, barriers, digests
  kProbe,       // takes as long as a payload message; counted as control, or
                // not at all if it has no values
};
inline constexpr int kNumTrafficKinds = 4;  // kinds with their own counter

struct TrafficCounters {
  std::array<int64_t, kNumTrafficKinds> bytes_sent{};
  std::array<int64_t, kNumTrafficKinds> messages_sent{};
  // True once a native collective has run: its bytes are those of the ring
  // formula, not a count, because a library's own messages cannot be observed.
  bool is_modelled = false;

  // Services count concurrently with their worker, so additions are atomic.
  // Under MPI, what a task sent is counted when it is joined, so a worker's
  // counts at a given point of its work depend on its work alone.
  void count(Traffic kind, int64_t bytes, int64_t messages = 1) {
    const auto order = std::memory_order_relaxed;
    const auto index =
        static_cast<size_t>(kind == Traffic::kProbe ? Traffic::kControl : kind);
    std::atomic_ref<int64_t>(bytes_sent[index]).fetch_add(bytes, order);
    std::atomic_ref<int64_t>(messages_sent[index]).fetch_add(messages, order);
  }
  void add(const TrafficCounters& other) {
    for (int kind = 0; kind < kNumTrafficKinds; ++kind)
      count(static_cast<Traffic>(kind), other.bytes_sent[kind],
            other.messages_sent[kind]);
    is_modelled = is_modelled || other.is_modelled;
  }
};

}  // namespace syncopate
