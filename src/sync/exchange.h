// Sends messages to some workers and receives from some, concurrently with the
// worker's step: one round of gossip.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/host_values.h"
#include "comm/mirror.h"
#include "sync/device_exchange.h"

namespace syncopate {

// Rounds alternate start and finish, with or without a boundary (drain) in
// between. All messages have the same length, in 32-bit words of device memory;
// with Wire::kBf16 the words are floats and are sent rounded. A note, one
// number, precedes each message and tells the receiver that its sender has got
// there. With parts.collectives, messages are sent from device to device, and
// only notes through the endpoint.
class NeighbourExchange {
 public:
  // `outgoing` must outlive the exchange. Up to `slots` messages arrive per
  // round. `notes`: the traffic kind of the notes.
  NeighbourExchange(const SchemeParts& parts,
                    std::span<float> outgoing,
                    int slots,
                    Wire wire,
                    Traffic notes = Traffic::kControl);

  // Sends `outgoing`, as left by the work submitted to the context's stream so
  // far, to each of `to`; the message of from[i] arrives in slot i. Until
  // finish() or drain(), `outgoing` must not change and slots must not be
  // read.
  void start(std::span<const int> to,
             std::span<const int> from,
             double note = 0);

  // Makes work submitted to the context's stream from here on see the messages,
  // and returns where the round's time went. No-op without a round.
  SyncTimes finish();

  // At a boundary: the messages are there, as after finish(). In virtual time
  // the worker has not waited for them: finish(), which must come before the
  // next start(), accounts for the remaining time.
  void drain();
  bool is_under_way() const { return state_ == State::kUnderWay; }

  // Where rounds begin and end within an update: waits at a boundary for the
  // messages between devices, as finish() of the next round would. Returns
  // where the time of the last round went.
  SyncTimes quiesce() {
    return on_device_ ? on_device_->quiesce() : SyncTimes{};
  }

  std::span<const float> incoming(int slot) const;
  double note(int slot) const { return notes_[slot]; }
  // Returns `outgoing` as its receivers see it. With fp32, the range itself.
  std::span<const float> sent() const;

  // Drained: the remaining time.
  void visit_state(StateVisitor& visitor);

 private:
  enum class State : uint8_t { kNone, kUnderWay, kDrained };
  void run(Endpoint& endpoint);
  void send_messages(Endpoint& endpoint);
  void receive_messages(Endpoint& endpoint);
  void join();
  Tensor in_slot(int slot) const;
  Tensor rounded(int slot) const;
  Bytes receive_buffer(int slot);
  std::span<float> on_host(int slot) const;

  SchemeParts parts_;
  std::span<float> outgoing_;
  const int64_t elems_, stride_;  // of a message; between slots
  const int slots_;
  const Wire wire_;
  const Traffic note_kind_;
  DeviceVector<float> incoming_;  // and one slot for sent()
  std::optional<DeviceExchange> on_device_;
  std::optional<Mirror> outgoing_mirror_, incoming_mirror_;  // else
  // bf16: what travels, in host memory, or slot by slot on the device.
  Scratch<uint16_t> packed_out_, packed_in_;
  Buffer rounded_;
  std::unique_ptr<Event> ready_;

  // For the round; written by the task, read after it was joined.
  State state_ = State::kNone;
  std::vector<int> to_, from_;
  double own_note_ = 0;
  std::vector<double> notes_;
  std::vector<Request> requests_, note_requests_;
  Time begun_at_ = 0, all_here_at_ = 0, arrived_at_ = 0;
  SyncTimes drained_;  // on_device_: what finish() returns after drain()
  Task task_;
};

}  // namespace syncopate
