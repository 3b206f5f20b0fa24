// One worker's place in the world: the interface that every scheme, collective
// and service is written against, over all worlds.
//
// Two worlds implement it. `inproc`: N workers as fibers of one process,
// always ordered by a virtual clock (smallest time first, ties by rank), so
// every run is deterministic. `mpi`: one worker a rank; a communication thread
// is the only caller of MPI and runs started tasks as fibers that test and
// yield, while the worker computes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/traffic.h"
#include "device/device.h"

namespace syncopate {

using Tag = int32_t;  // 0 .. kMaxTag; who uses which: comm/tags.h
using Time = double;  // seconds: virtual in one process, wall under MPI

struct TagRange {
  Tag first, last;  // inclusive
};

// A span of host memory. Device memory travels through a Mirror (mirror.h) or
// by DeviceCollectives.
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

// A send or receive in flight. Copyable handle; wait() or test() completes it.
struct RequestState;
using Request = std::shared_ptr<RequestState>;

// A function running beside the worker. Its exception, if any, is rethrown by
// Endpoint::join.
struct TaskState;
using Task = std::shared_ptr<TaskState>;

// A received message whose sender and size were not known beforehand.
struct Message {
  int from = -1;
  Tag tag = 0;
  std::vector<std::byte> payload;
};

// A subset of the workers, in an agreed order; positions are indices into it.
struct Group {
  std::vector<int> members;  // world ranks
  int position = -1;         // of this worker in members
  int size() const { return static_cast<int>(members.size()); }
};

class Endpoint {
 public:
  virtual ~Endpoint() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // The memory must stay as it is until the request is complete. Messages
  // between a pair with one tag arrive in order. Any size up to 2^62; zero
  // bytes are a message too. A receive of another size than sent is
  // Error(kInternal). `kind` says which counter of the traffic it belongs to.
  virtual Request isend(ConstBytes data, int to, Tag tag, Traffic kind) = 0;
  virtual Request irecv(Bytes data, int from, Tag tag) = 0;

  // The next message with a tag in the range, from anyone, in order of
  // arrival (inproc: by virtual time, then sender). For services.
  virtual Message recv_any(TagRange tags) = 0;

  virtual void wait(const Request& request) = 0;  // lets others go on
  virtual bool test(const Request& request) = 0;

  // Waits until the device has come to an event; lets others go on where time
  // is wall time (in virtual time the device's work takes none).
  virtual void wait_for(Event& event);

  virtual Time now() const = 0;
  // Whether now() is a virtual clock, by which step times are known exactly.
  virtual bool has_virtual_time() const = 0;

  // inproc: this worker's virtual clock moves on by `seconds` and workers that
  // are now behind it run first. MPI: nothing, time passes by itself.
  virtual void advance(Time seconds) = 0;

  // inproc: sets this worker's virtual clock, back too; for a boundary at which
  // nothing of it is in flight. MPI: nothing.
  virtual void set_clock(Time now) = 0;

  // Lets others go on; returns when it is this worker's turn again.
  virtual void yield() = 0;

  // Runs `body` beside the worker with an endpoint of its own (same rank).
  // Tasks of one worker run one at a time between their waits, in the order
  // started. Under MPI on the communication thread: `body` may not block but
  // in this endpoint's calls.
  virtual Task start(std::string name, std::function<void(Endpoint&)> body) = 0;
  // The same for a service, which answers others for as long as they ask: a
  // failure of it is a failure of its worker, at the worker's next wait.
  virtual Task serve(std::string name, std::function<void(Endpoint&)> body) {
    return start(std::move(name), std::move(body));
  }
  virtual void join(const Task& task) = 0;
  virtual bool done(const Task& task) const = 0;

  // For a worker that fails: its tasks end before what they use does. Nothing
  // may be started or joined afterwards.
  virtual void abandon_tasks() noexcept {}

  // Runs `body` to its end where its messages cost least, and returns then:
  // MPI: on the communication thread, so that a collective of many messages
  // changes threads once; inproc: right here.
  virtual void perform(const std::function<void(Endpoint&)>& body);

  // The library's own all-reduce (sum) where the world has one: MPI_Iallreduce
  // under MPI, a sum in rank order in one process. In place. Order of
  // summation, and so the last bits, are the library's. Members of a group
  // must make their calls for it in the same order.
  virtual void native_all_reduce(std::span<float> values,
                                 const Group& group,
                                 Traffic kind) = 0;

  virtual TrafficCounters& traffic() = 0;

  Group world_group() const;
  Group group(std::span<const int> members) const;  // must contain rank()
};

}  // namespace syncopate
