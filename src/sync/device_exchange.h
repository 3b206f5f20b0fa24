// The messages of a round of gossip, sent from device to device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>

#include "sync/scheme.h"

namespace syncopate {

// Rounds are carried out in the order of the collectives' stream. The host
// waits for the round before, so that a peer that is gone is noticed and times
// are measured at no cost to the device.
class DeviceExchange {
 public:
  // All ranges must outlive the object. `slots` holds a message every `stride`
  // elements, as many as arrive at most, and with Wire::kBf16 behind them the
  // outgoing message as its receivers see it.
  DeviceExchange(const SchemeParts& parts,
                 std::span<float> outgoing,
                 std::span<float> slots,
                 int64_t stride,
                 Wire wire);

  // As NeighbourExchange::start, with the first `elems` elements of `outgoing`.
  void start(std::span<const int> to, std::span<const int> from, int64_t elems);
  // Makes work submitted to the context's stream from here on see the messages.
  // Returns where the time of the round before went.
  SyncTimes finish();
  // Does the same, and returns once the messages have arrived.
  SyncTimes drain();
  // After finish(): returns where the time of that round went.
  SyncTimes quiesce() { return times_of(rounds_[1 - now_]); }

 private:
  struct Round {
    std::unique_ptr<Event> ready, arrived, needed;
    bool is_complete = true;  // its times were returned
    int64_t bytes = 0;        // sent
    int64_t traced = 0;       // its step in a trace; 0: in none
  };
  SyncTimes times_of(Round& round);  // none if they were returned
  void record(const Round& round, double exposed_s);
  // The message in slot i as it travels.
  Tensor on_wire(int64_t slot) const;
  Tensor in_slot(int64_t slot) const;

  SchemeParts parts_;
  DeviceCollectives& collectives_;
  std::span<float> outgoing_, slots_;
  const int64_t stride_;
  Buffer rounded_;                    // bf16: a message per slot
  int64_t received_ = 0, elems_ = 0;  // messages; elements of each
  Round rounds_[2];  // this one and the previous one, alternating
  int now_ = 0;
};

}  // namespace syncopate
