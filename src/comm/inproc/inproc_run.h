// State shared by the endpoints of one in-process World::run: the scheduler,
// messages in flight, and errors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <exception>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "comm/inproc/inproc_sums.h"
#include "comm/inproc/network.h"
#include "comm/scheduler.h"
#include "comm/states.h"
#include "comm/world.h"

namespace syncopate::inproc {

constexpr Time kNever = std::numeric_limits<Time>::infinity();

struct InprocRequest : RequestState {
  int rank = -1, peer = -1;  // the owner, and the other side
  Tag tag = 0;
  std::byte* data = nullptr;  // the caller's memory
  int64_t bytes = 0;
  // A receive: kNever until the arrival of its message is known.
  Time completes_at = kNever;
  std::string error;  // set if the sizes differ
  Strand* waiting = nullptr;
  // Send: set until a receive takes it. Points at the sender's memory until the
  // sender's wait copies it.
  struct Parcel* parcel = nullptr;
};

// A message that has not arrived, or that no receive has taken yet.
struct Parcel {
  int from = -1;
  Tag tag = 0;
  Time arrival = kNever;  // until it is known
  uint64_t place = 0;     // of ties at its arrival
  int64_t serial = 0;     // of the run's messages, in order of sending
  const std::byte* data = nullptr;
  int64_t bytes = 0;
  std::vector<std::byte> copy;  // target of `data` once copied
  std::shared_ptr<InprocRequest> send;
  std::shared_ptr<InprocRequest> receive;  // null until one takes it
  void keep();  // copies the values before the sender's memory changes
};

struct InprocTask : TaskState {
  std::shared_ptr<Strand> strand;
  Time ended_at = 0;
  bool has_ended = false, is_joined = false;
  std::exception_ptr error;
  std::vector<Strand*> joiners;
};

// A native all-reduce that is waiting for members.
struct Gathering {
  std::vector<std::span<float>> values;  // by position
  std::vector<Strand*> waiting;          // by position; null: has not arrived
  int num_arrived = 0;
};

// The messages with one tag that no receive has taken yet.
class Shelf {
 public:
  bool is_empty() const { return by_sender_.empty(); }
  void put(std::shared_ptr<Parcel> parcel);
  // Takes the first message from a sender; null: there is none.
  std::shared_ptr<Parcel> take(int from);
  // Call when the arrival of a message on the shelf has become known.
  void note_arrival(const Parcel& parcel);
  // The one that arrives first among the senders' first messages (ties by
  // place, then in order of sending); null if no arrival is known.
  const Parcel* soonest() const;

 private:
  std::map<int, std::list<std::shared_ptr<Parcel>>> by_sender_;
  // The senders' first messages whose arrival is known.
  std::map<std::tuple<Time, uint64_t, int64_t>, const Parcel*> arrivals_;
};

// One worker's inbox.
struct Mailbox {
  std::map<Tag, Shelf> shelves;  // not empty
  std::map<std::pair<Tag, int>, std::list<std::shared_ptr<InprocRequest>>>
      receives;
  struct Listener {
    TagRange tags;
    Strand* strand;
  };
  std::vector<Listener> listeners;  // waiting in recv_any

  std::shared_ptr<Parcel> take(Tag tag, int from);  // null: there is none
  const Parcel* soonest(TagRange tags) const;       // as Shelf, of all tags
};

class InprocRun {
 public:
  InprocRun(int workers, const NetworkCost& cost);

  void start_worker(int rank, const std::function<void(Endpoint&)>& body);
  std::shared_ptr<InprocTask> start_task(int rank,
                                         std::string name,
                                         std::function<void(Endpoint&)> body);
  // Waits until all have ended, then rethrows the first error.
  void finish();

  Request isend(int rank, ConstBytes data, int to, Tag tag, Traffic kind);
  Request irecv(int rank, Bytes data, int from, Tag tag);
  Message recv_any(int rank, TagRange tags);
  void wait(const Request& request);
  bool test(const Request& request);
  void join(const Task& task);
  void native_all_reduce(std::span<float> values,
                         const Group& group,
                         Traffic kind);

  int size() const { return static_cast<int>(mailboxes_.size()); }
  Scheduler& scheduler() { return scheduler_; }
  TrafficCounters& traffic(int rank) { return traffic_[rank]; }
  Network& network() { return network_; }
  InprocSums& sums() { return sums_; }
  Time next_event(int rank);  // a worker's earliest future event

 private:
  // Brings a message to the end of its way, link by link.
  void carry_on(const std::shared_ptr<Parcel>& parcel, Transit transit);
  void arrive(Parcel& parcel, Time at);
  void deliver(Parcel& parcel, const std::shared_ptr<InprocRequest>& receive);
  void note_event(int rank, Time at);
  void check_tag(Tag first, Tag last) const;
  std::exception_ptr first_error() const;

  Network network_;
  const Ties ties_;
  Scheduler scheduler_{ties_};
  std::vector<Mailbox> mailboxes_;
  std::vector<TrafficCounters> traffic_;
  InprocSums sums_{network_, scheduler_, traffic_};
  int64_t num_sent_ = 0;
  std::vector<std::set<Time>> events_;  // future ones, for strands that poll
  std::vector<std::exception_ptr> worker_errors_;
  std::vector<std::vector<std::shared_ptr<InprocTask>>> tasks_;  // not joined
  std::map<Ranks, std::deque<Gathering>> gatherings_;
};

}  // namespace syncopate::inproc
