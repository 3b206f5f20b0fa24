// One worker's endpoint in a world: the interface that every scheme, collective
// and service is written against.
//
// Two worlds implement it. `inproc` runs N workers as fibers of one process,
// always ordered by a virtual clock (smallest time first, ties broken by rank),
// so every run is deterministic. `mpi` runs one worker per rank; a
// communication thread is the only caller of MPI and runs started tasks as
// fibers that test and yield while the worker computes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/blocks.h"
#include "comm/traffic.h"
#include "device/device.h"

namespace syncopate {

using Tag = int32_t;  // 0 .. kMaxTag; assigned in comm/tags.h
using Time = double;  // seconds: virtual in one process, wall under MPI
inline constexpr Time kNever = std::numeric_limits<Time>::infinity();

// Until when each kind of link of a worker (comm/inproc/network.h) is taken,
// and for which intervals later on; for links of its parameter server's
// machine, intervals only.
struct LinkClocks {
  struct Interval {
    int64_t kind = 0;
    Time from = 0, until = 0;
  };
  std::array<Time, 8> taken_until{};
  std::vector<Interval> taken_later;
};

struct TagRange {
  Tag first, last;  // inclusive
};

// A span of host memory, or of device memory if the endpoint takes it.
// Endpoints that take only host memory need a Mirror (mirror.h) or
// DeviceCollectives.
struct ConstBytes {
  const void* data = nullptr;
  int64_t bytes = 0;
};
struct Bytes {
  void* data = nullptr;
  int64_t bytes = 0;
};

template <typename T>
ConstBytes bytes_view(std::span<const T> values) {
  return {values.data(), static_cast<int64_t>(values.size_bytes())};
}
template <typename T>
Bytes bytes_span(std::span<T> values) {
  return {values.data(), static_cast<int64_t>(values.size_bytes())};
}

class ModelledSums;

// A send or receive in flight: a copyable handle completed by wait() or test().
struct RequestState;
using Request = std::shared_ptr<RequestState>;

// A function that runs concurrently with the worker. Endpoint::join rethrows
// its exception, if any.
struct TaskState;
using Task = std::shared_ptr<TaskState>;

// Bytes that were received. Those without values (device/device.h) have only a
// size and an address.
class Payload {
 public:
  Payload() = default;
  explicit Payload(MessageBytes bytes)
      : bytes_(std::move(bytes)), size_(bytes_.size()) {}
  Payload(std::byte* without_values, size_t size)
      : without_values_(without_values), size_(size) {}

  std::byte* data() {
    return without_values_ == nullptr ? bytes_.data() : without_values_;
  }
  const std::byte* data() const {
    return without_values_ == nullptr ? bytes_.data() : without_values_;
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  MessageBytes bytes_;
  std::byte* without_values_ = nullptr;
  size_t size_ = 0;
};

// A received message whose sender and size were not known in advance.
struct Message {
  int from = -1;
  Tag tag = 0;
  Payload payload;
};

// Distinct world ranks in an agreed order; a position is an index into them.
// Copies share the list, because the groups of N workers in one process would
// otherwise hold N * N ranks.
class Ranks {
 public:
  Ranks() = default;
  explicit Ranks(std::vector<int> ranks)
      : ranks_(std::make_shared<const std::vector<int>>(std::move(ranks))) {}
  static Ranks all(int size);  // 0 .. size - 1

  int operator[](size_t i) const { return (*ranks_)[i]; }
  size_t size() const { return ranks_ == nullptr ? 0 : ranks_->size(); }
  const int* data() const {
    return ranks_ == nullptr ? nullptr : &(*ranks_)[0];
  }
  const int* begin() const { return data(); }
  const int* end() const { return data() + size(); }
  bool operator<(const Ranks& other) const {
    return ranks_ != other.ranks_ &&
           std::lexicographical_compare(begin(), end(), other.begin(),
                                        other.end());
  }

 private:
  std::shared_ptr<const std::vector<int>> ranks_;
};

struct Group {
  Ranks members;
  int position = -1;  // of this worker in members
  int size() const { return static_cast<int>(members.size()); }
};

class WorkerTrace;

class Endpoint {
 public:
  virtual ~Endpoint() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // The rank that parameter server `index` has in messages: that of worker
  // `index`, or (inproc) of a machine of its own, behind those of all workers.
  virtual int server_rank(int index) const { return index; }
  bool has_servers_apart() const { return server_rank(0) != 0; }

  // Equal for workers that share a host: under MPI by its name, in one process
  // by NetworkCost::island (none: all share one).
  virtual int host_of(int rank) const = 0;

  // Whether the memory of messages, or that of native_all_reduce, may be a
  // GPU's, as with a GPU-aware MPI.
  virtual bool takes_device_memory() const { return false; }
  virtual bool sums_device_memory() const { return false; }

  // The memory must remain valid, and unchanged for a send, until the request
  // is complete. Messages between two workers with the same tag arrive in
  // order. Sizes range from zero bytes (still a message) to 2^62. A receive
  // whose size differs from the send is Error(kInternal). `kind` selects the
  // traffic counter.
  virtual Request isend(ConstBytes data, int to, Tag tag, Traffic kind) = 0;
  virtual Request irecv(Bytes data, int from, Tag tag) = 0;

  // Returns the next message with a tag in the range, from any sender, in order
  // of arrival (inproc: by virtual time, then sender). For services.
  virtual Message recv_any(TagRange tags) = 0;

  // Lets others run, and returns when the request was complete; under MPI, when
  // that was noticed. Null: now.
  virtual Time wait(const Request& request) = 0;
  virtual bool test(const Request& request) = 0;

  // Waits until the device has reached an event. Lets others run if time is
  // wall time (in virtual time, device work takes none).
  virtual void wait_for(Event& event);

  virtual Time now() const = 0;
  // Returns whether now() is a virtual clock, so that step times are exact.
  virtual bool has_virtual_time() const = 0;

  // inproc: advances this worker's virtual clock by `seconds`; workers that are
  // now behind it run first. MPI: does nothing, as time passes by itself.
  virtual void advance(Time seconds) = 0;

  // Like advance(), but workers that are now behind this one run only before
  // its next call, other than now(), traffic() and modelled_sums(). What such a
  // worker does must make no difference until then.
  virtual void advance_ahead(Time seconds) { advance(seconds); }

  // inproc: sets this worker's virtual clock, possibly backwards, at a boundary
  // at which it has nothing in flight. Forwards, its next call waits for those
  // that are behind, as after advance_ahead(). MPI: does nothing.
  virtual void set_clock(Time now) = 0;

  // inproc: call when a worker reaches a boundary, which sets clocks back, and
  // when all leave it, with clocks of `earliest` or later. Messages sent in
  // between may occupy links in the future of messages sent afterwards. MPI:
  // does nothing.
  virtual void come_to_boundary() {}
  virtual void leave_boundary(Time /*earliest*/) {}

  // inproc: when this worker's links are taken, which outlasts boundaries and
  // belongs to a run's state. MPI: never, and setting them does nothing.
  virtual LinkClocks link_clocks() const { return {}; }
  virtual void set_link_clocks(const LinkClocks&) {}

  // Lets others run; returns when it is this worker's turn again.
  virtual void yield() = 0;

  // Runs `body` concurrently with the worker, with its own endpoint (same
  // rank). Tasks of one worker run one at a time between their waits, in the
  // order they were started. Under MPI, `body` runs on the communication thread
  // and may block only in calls of its endpoint.
  virtual Task start(std::string name, std::function<void(Endpoint&)> body) = 0;
  // Does the same for a service that answers other workers for as long as they
  // ask. If it fails, its worker fails at its next wait.
  virtual Task serve(std::string name, std::function<void(Endpoint&)> body) {
    return start(std::move(name), std::move(body));
  }
  // Like serve(), but `body` gets the endpoint of this worker's parameter
  // server, server_rank(rank()). The server's memory is this worker's.
  virtual Task serve_apart(std::string name,
                           std::function<void(Endpoint&)> body) {
    return serve(std::move(name), std::move(body));
  }
  virtual void join(const Task& task) = 0;
  virtual bool done(const Task& task) const = 0;

  // For a worker that fails: ends its tasks before the objects they use are
  // destroyed. Nothing may be started or joined afterwards.
  virtual void abandon_tasks() noexcept {}

  // Runs `body` to completion where its messages are cheapest. MPI: on the
  // communication thread, so a collective of many messages switches threads
  // once. inproc: on the caller.
  virtual void perform(const std::function<void(Endpoint&)>& body);

  // Sums in place with the world's own all-reduce: MPI_Iallreduce under MPI, a
  // sum in rank order in one process. The library determines the order of
  // summation and hence the last bits. Members of a group must make their
  // native calls for it in the same order.
  virtual void native_all_reduce(std::span<float> values,
                                 const Group& group,
                                 Traffic kind) = 0;

  // Sums of ranges without values (device/device.h); null where there are none.
  virtual ModelledSums* modelled_sums() { return nullptr; }

  virtual TrafficCounters& traffic() = 0;

  // Where this worker's time is recorded (comm/trace.h); null: nowhere.
  virtual WorkerTrace* trace() const { return nullptr; }
  // Returns an endpoint with which what the worker sends and waits for is one
  // slice of the trace, as if a task did it; null: there is no trace. Messages
  // take the same time with and without it.
  virtual std::unique_ptr<Endpoint> slice(const std::string&) {
    return nullptr;
  }

  Group world_group() const;
  // `members` must contain rank().
  Group group(const Ranks& members) const;
  Group group(std::span<const int> members) const {
    return group(Ranks({members.begin(), members.end()}));
  }
};

}  // namespace syncopate
