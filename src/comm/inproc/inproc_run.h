// State shared by the endpoints of one in-process World::run: the scheduler,
// messages in flight, and errors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/inproc/inproc_sums.h"
#include "comm/inproc/mailboxes.h"
#include "comm/inproc/network.h"
#include "comm/scheduler.h"
#include "comm/states.h"
#include "comm/world.h"

namespace syncopate::inproc {

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

// A strand that waits in recv_any.
struct Listener {
  TagRange tags;
  Strand* strand;
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
  Time wait(const Request& request);
  bool test(const Request& request);
  void join(const Task& task);
  void native_all_reduce(std::span<float> values,
                         const Group& group,
                         Traffic kind);

  int size() const { return static_cast<int>(traffic_.size()); }
  int server_rank(int index) const { return network_.server_rank(index); }
  Scheduler& scheduler() { return scheduler_; }
  // A server's messages count as those of the worker of its number.
  TrafficCounters& traffic(int rank) {
    return traffic_[network_.worker_of(rank)];
  }
  Network& network() { return network_; }
  InprocSums& sums() { return sums_; }
  Time next_event(int rank);  // a worker's earliest future event

 private:
  friend struct Parcel;
  void arrive(Parcel& parcel, Time at);
  void deliver(Parcel& parcel, const std::shared_ptr<InprocRequest>& receive);
  void note_event(int rank, Time at);
  void forget_events(int rank);  // past ones
  int num_ranks() const { return server_rank(size()); }
  std::string name_of(int rank) const;
  void check_tag(Tag first, Tag last) const;
  std::exception_ptr first_error() const;

  Network network_;
  const Ties ties_;
  Scheduler scheduler_{ties_};
  Mailboxes mailboxes_;
  std::vector<std::vector<Listener>> listeners_;
  std::vector<TrafficCounters> traffic_;  // of the workers
  InprocSums sums_{network_, scheduler_, traffic_};
  int64_t num_sent_ = 0;
  // Future ones, for strands that poll: heaps, with the first at the front.
  std::vector<std::vector<Time>> events_;
  std::vector<std::exception_ptr> worker_errors_;
  std::vector<std::vector<std::shared_ptr<InprocTask>>> tasks_;  // not joined
  std::map<Ranks, std::deque<Gathering>> gatherings_;
};

}  // namespace syncopate::inproc
