// A message to each of some workers and one from each of some, beside the
// worker's step: what gossip does once a round.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "comm/mirror.h"
#include "sync/scheme.h"

namespace syncopate {

// Rounds follow each other: start, then finish, with or without a boundary
// (settle) between them. All messages have one length, in 32-bit words of
// device memory; with Wire::kBf16 the words are floats and travel rounded. A
// note, one number, goes before each message, and tells whoever receives it
// that its sender has got there.
class NeighbourExchange {
 public:
  // `outgoing` must be there as long as the exchange. Up to `slots` messages
  // arrive in a round. `notes`: what the notes count as.
  NeighbourExchange(const SchemeParts& parts,
                    std::span<float> outgoing,
                    int slots,
                    Wire wire,
                    Traffic notes = Traffic::kControl);

  // `outgoing`, as the work given to the context's stream so far leaves it,
  // goes to each of `to`; the message of from[i] comes to slot i. `outgoing`
  // may not change, and slots not be read, until finish() or settle().
  void start(std::span<const int> to,
             std::span<const int> from,
             double note = 0);

  // Work given to the context's stream from here on finds the messages. Tells
  // where the round's time went. Without a round: nothing.
  SyncTimes finish();

  // At a boundary: the messages are there, as after finish(). In virtual time
  // the worker has not waited for them: finish(), which must come before the
  // next start(), takes the time that is left.
  void settle();
  bool is_under_way() const { return state_ == State::kUnderWay; }

  std::span<const float> incoming(int slot) const;
  double note(int slot) const { return notes_[slot]; }
  // `outgoing` as its receivers have it. With fp32 that range itself.
  std::span<const float> sent() const;

  // Settled: what is left of the time.
  void visit_state(StateVisitor& visitor);

 private:
  enum class State : uint8_t { kNone, kUnderWay, kSettled };
  void run(Endpoint& endpoint);
  void join();
  Bytes receive_buffer(int slot);
  std::span<float> on_host(int slot) const;

  SchemeParts parts_;
  std::span<float> outgoing_;
  const int64_t elems_, stride_;  // of a message; from slot to slot
  const int slots_;
  const Wire wire_;
  const Traffic note_kind_;
  DeviceVector<float> incoming_;  // and one slot for sent()
  Mirror outgoing_mirror_, incoming_mirror_;
  std::vector<uint16_t> packed_out_, packed_in_;  // bf16
  std::unique_ptr<Event> ready_;

  // Of the round; written by the task, read after it was joined.
  State state_ = State::kNone;
  std::vector<int> to_, from_;
  double own_note_ = 0;
  std::vector<double> notes_;
  std::vector<Request> requests_, note_requests_;
  Time begun_at_ = 0, all_here_at_ = 0, arrived_at_ = 0;
  Task task_;
};

}  // namespace syncopate
