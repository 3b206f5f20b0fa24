// Messages of an in-process world that no receive has taken yet, and receives
// that no message has met. What is between two workers with one tag is in
// order; all queues share one hash table, since a simulation has millions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/blocks.h"
#include "comm/inproc/network.h"
#include "comm/scheduler.h"
#include "comm/states.h"

namespace syncopate::inproc {

struct Queued {
  std::shared_ptr<Queued> next;  // behind it in its queue
};

struct InprocRequest : RequestState, Queued {
  int rank = -1, peer = -1;  // the owner, and the other side
  Tag tag = 0;
  // What a wait looks at is together, for the cache.
  // A receive: kNever until the arrival of its message is known.
  Time completes_at = kNever;
  // A send, while its message is in the sender's memory, which the sender's
  // wait ends: that message.
  struct Parcel* borrowed = nullptr;
  std::unique_ptr<std::string> error;  // if the sizes differ
  Strand* waiting = nullptr;
  std::byte* data = nullptr;  // the caller's memory, or `copy` of a message
  int64_t bytes = 0;
};

// A message, and the request of its sender.
struct Parcel : Callback, InprocRequest {
  class InprocRun* run = nullptr;
  Transit transit;
  bool is_first = false;  // of its queue
  Time arrival = kNever;  // until it is known
  uint64_t place = 0;     // of ties at its arrival
  int64_t serial = 0;     // of the run's messages, in order of sending
  MessageBytes copy;
  std::shared_ptr<InprocRequest> receive;  // null until one takes it
  void keep();           // copies the values before the sender's memory changes
  Time call() override;  // takes the next link
};

class Mailboxes {
 public:
  explicit Mailboxes(int workers);
  ~Mailboxes();
  Mailboxes(const Mailboxes&) = delete;
  Mailboxes& operator=(const Mailboxes&) = delete;

  // Queues one for a receive, or for a message, of these two and this tag. Take
  // the other first, if there is one.
  void put(std::shared_ptr<Parcel> parcel);
  void post(std::shared_ptr<InprocRequest> receive);
  // The first that was queued; null if there is none.
  std::shared_ptr<Parcel> take(int to, int from, Tag tag);
  std::shared_ptr<InprocRequest> take_receive(int to, int from, Tag tag);

  // Call when the arrival of a message in a queue has become known.
  void note_arrival(const Parcel& parcel);
  // A message whose arrival is known.
  struct Arrival {
    Time at;
    uint64_t place;
    int64_t serial;
    const Parcel* parcel;
    int from;
    Tag tag;
    bool operator<(const Arrival& other) const;
  };
  // The one that arrives first among the senders' first messages to a worker
  // (ties by place, then in order of sending); null if no arrival is known.
  // Valid until the next call of put(), take() or note_arrival().
  const Arrival* soonest(int to, TagRange tags) const;
  // Lets the processor load what take() and the receive of an answer to this
  // message will read. With many workers, none of it is in the cache.
  void prefetch(int to, const Arrival& arrival) const;

 private:
  struct Key {
    int to, from;
    Tag tag;
    bool operator==(const Key&) const = default;
  };
  // A queue of messages or of receives.
  struct Queue {
    Key key{};
    enum class Of : uint8_t { kNothing, kMessages, kReceives };
    Of of = Of::kNothing;  // kNothing: a free slot of the table
    std::shared_ptr<Queued> first;
    Queued* last = nullptr;
  };
  // In order. Arrivals become known almost in order, and the first is taken.
  class Arrivals {
   public:
    bool is_empty() const { return first_ == sorted_.size(); }
    const Arrival& first() const { return sorted_[first_]; }
    void insert(const Arrival& arrival);
    void erase(const Arrival& arrival);

   private:
    std::vector<Arrival> sorted_;
    size_t first_ = 0;
  };

  size_t home_of(const Key& key) const;
  size_t slot_of(const Key& key) const;  // its own, or a free one
  void append(const Key& key, Queue::Of of, std::shared_ptr<Queued> item);
  std::shared_ptr<Queued> pop(size_t slot);
  void free_slot(size_t slot);
  void grow();

  std::vector<Queue> queues_;  // by linear probing; size: a power of two
  size_t num_queues_ = 0;
  // By receiver and tag: the senders' first messages whose arrival is known.
  std::vector<std::map<Tag, Arrivals>> arrivals_;
};

}  // namespace syncopate::inproc
