// Counts every byte where it is handed to a transport.
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
  kControl,     // agreement, clocks, barriers, digests
  kProbe,       // counted as control; takes as long as a payload message
};
inline constexpr int kNumTrafficKinds = 4;  // that are counted

struct TrafficCounters {
  std::array<int64_t, kNumTrafficKinds> bytes_sent{};
  std::array<int64_t, kNumTrafficKinds> messages_sent{};
  // True once a native collective ran: its bytes are the formula of a ring,
  // not a count (a library's own messages cannot be seen).
  bool is_modelled = false;

  // Services count beside their worker, so additions are atomic. Under MPI
  // what a task sent is counted when it is joined, so that what a worker has
  // counted at a point of its work depends on its work alone.
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
