// SPDX-License-Identifier: Apache-2.0
#include "comm/inproc/inproc_run.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "base/check.h"
#include "comm/collectives.h"
#include "comm/inproc/inproc_endpoint.h"
#include "comm/inproc/recycled.h"
#include "comm/tags.h"

namespace syncopate::inproc {
namespace {

// Copied at once, which is cheaper than a rendezvous.
constexpr int64_t kSmallBytes = 4096;

InprocRequest& state_of(const Request& request) {
  return static_cast<InprocRequest&>(*request);
}

bool is_peer_lost(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return e.code() == ExitCode::kPeerLost;
  } catch (...) {
    return false;
  }
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an unknown error";
  }
}

}  // namespace

InprocRun::InprocRun(int workers, const NetworkCost& cost)
    : network_(workers, cost),
      ties_(cost.ties_seed),
      mailboxes_(network_.server_rank(workers)),
      listeners_(network_.server_rank(workers)),
      traffic_(workers),
      events_(listeners_.size()),
      worker_errors_(workers),
      tasks_(listeners_.size()) {}

std::string InprocRun::name_of(int rank) const {
  return rank < size() ? fmt::format("worker {}", rank)
                       : fmt::format("parameter server {}", rank - size());
}

void InprocRun::start_worker(int rank,
                             const std::function<void(Endpoint&)>& body) {
  const std::string name = name_of(rank);
  scheduler_.spawn(rank, name, 0, kWorkerStackBytes, [this, rank, &body] {
    std::exception_ptr& error = worker_errors_[rank];
    try {
      scheduler_.check_alive();
      InprocEndpoint endpoint(*this, scheduler_.current());
      body(endpoint);
    } catch (...) {
      error = std::current_exception();
    }
    if (error == nullptr) return;
    scheduler_.fail_all(
        fmt::format("worker {} has failed: {}", rank, text_of(error)));
  });
}

std::shared_ptr<InprocTask> InprocRun::start_task(
    int rank,
    std::string name,
    std::function<void(Endpoint&)> body) {
  scheduler_.check_alive();
  auto task = std::make_shared<InprocTask>();
  task->strand = scheduler_.spawn(rank, name_of(rank) + "/" + name,
                                  scheduler_.current().time, kTaskStackBytes,
                                  [this, rank, task, body = std::move(body)] {
                                    Strand& self = scheduler_.current();
                                    try {
                                      scheduler_.check_alive();
                                      InprocEndpoint endpoint(*this, self);
                                      body(endpoint);
                                    } catch (...) {
                                      task->error = std::current_exception();
                                    }
                                    task->has_ended = true;
                                    task->ended_at = self.time;
                                    note_event(rank, self.time);
                                    for (Strand* joiner : task->joiners)
                                      scheduler_.wake(*joiner, self.time);
                                    if (!task->error)
                                      std::erase(tasks_[rank], task);
                                  });
  tasks_[rank].push_back(task);
  return task;
}

void InprocRun::join(const Task& handle) {
  auto& task = static_cast<InprocTask&>(*handle);
  Strand& self = scheduler_.current();
  while (!task.has_ended) {
    task.joiners.push_back(&self);
    scheduler_.block([&task] {
      return Awaited{"the end of " + task.strand->name, task.strand->rank};
    });
  }
  scheduler_.sleep_until(task.ended_at);
  if (task.is_joined || !task.error) return;
  task.is_joined = true;
  std::erase(tasks_[task.strand->rank], handle);
  std::rethrow_exception(task.error);
}

std::exception_ptr InprocRun::first_error() const {
  for (int rank = 0; rank < num_ranks(); ++rank) {
    const std::exception_ptr error =
        rank < size() ? worker_errors_[rank] : nullptr;
    if (error && !is_peer_lost(error)) return error;
    for (const auto& task : tasks_[rank]) {
      if (task->error && !is_peer_lost(task->error)) return task->error;
    }
  }
  if (!scheduler_.deadlock().empty())
    return std::make_exception_ptr(
        Error(ExitCode::kInternal, scheduler_.deadlock()));
  for (const std::exception_ptr& error : worker_errors_) {
    if (error) return error;
  }
  for (const auto& tasks : tasks_) {
    for (const auto& task : tasks) {
      if (task->error) return task->error;
    }
  }
  return nullptr;
}

void InprocRun::finish() {
  scheduler_.run();
  if (const std::exception_ptr error = first_error())
    std::rethrow_exception(error);
}

void InprocRun::note_event(int rank, Time at) {
  forget_events(rank);
  if (at <= scheduler_.now()) return;
  std::vector<Time>& events = events_[rank];
  events.push_back(at);
  std::ranges::push_heap(events, std::greater<>());
}

void InprocRun::forget_events(int rank) {
  std::vector<Time>& events = events_[rank];
  while (!events.empty() && events.front() <= scheduler_.now()) {
    std::ranges::pop_heap(events, std::greater<>());
    events.pop_back();
  }
}

Time InprocRun::next_event(int rank) {
  forget_events(rank);
  return events_[rank].empty() ? -kNever : events_[rank].front();
}

void InprocRun::check_tag(Tag first, Tag last) const {
  scheduler_.check_alive();
  CHECK_MSG(first >= 0 && first <= last && last <= tags::kMaxTag, "tags {}..{}",
            first, last);
}

Time Parcel::call() {
  run->network_.pass(transit);
  if (!transit.has_arrived()) return transit.at();
  run->arrive(*this, transit.at());
  return kNever;
}

void InprocRun::arrive(Parcel& parcel, Time at) {
  parcel.arrival = at;
  parcel.place = ties_.place(parcel.rank, at);
  const int to = parcel.peer;
  if (parcel.receive != nullptr) {
    parcel.receive->completes_at = at;
    note_event(to, at);
    if (parcel.receive->waiting != nullptr)
      scheduler_.wake(*parcel.receive->waiting, at);
    return;
  }
  mailboxes_.note_arrival(parcel);
  for (const Listener& listener : listeners_[to]) {
    if (listener.tags.first <= parcel.tag && parcel.tag <= listener.tags.last)
      scheduler_.wake(*listener.strand, at);
  }
}

void InprocRun::deliver(Parcel& parcel,
                        const std::shared_ptr<InprocRequest>& receive) {
  if (parcel.bytes == receive->bytes) {
    if (parcel.bytes > 0 && has_values(receive->data)) {
      CHECK(has_values(parcel.data));
      std::memcpy(receive->data, parcel.data,
                  static_cast<size_t>(parcel.bytes));
    }
  } else {
    receive->error = std::make_unique<std::string>(describe_size_mismatch(
        receive->rank, parcel.rank, parcel.tag, receive->bytes, parcel.bytes));
  }
  parcel.borrowed = nullptr;
  parcel.copy = {};
  parcel.receive = receive;
  if (parcel.arrival < kNever) arrive(parcel, parcel.arrival);
}

// Only a scheme's exchanges cost time: consensus, evaluation, the initial model
// and checkpoints take no virtual time, and neither does a message to oneself.
Request InprocRun::isend(int rank,
                         ConstBytes data,
                         int to,
                         Tag tag,
                         Traffic kind) {
  check_tag(tag, tag);
  CHECK(to >= 0 && to < num_ranks() && data.bytes >= 0);
  scheduler_.note_progress();
  const bool is_probe = kind == Traffic::kProbe;
  // A message to oneself is not traffic, nor is what a probe only stands for.
  const bool is_measure = is_probe && !has_values(data.data);
  if (to != rank && !is_measure) traffic(rank).count(kind, data.bytes);
  auto parcel = make_recycled<Parcel>();
  parcel->rank = rank;
  parcel->peer = to;
  parcel->tag = tag;
  parcel->data = static_cast<std::byte*>(const_cast<void*>(data.data));
  parcel->bytes = data.bytes;
  parcel->serial = num_sent_++;

  if (const auto receive = mailboxes_.take_receive(to, rank, tag)) {
    deliver(*parcel, receive);
  } else {
    if (data.bytes <= kSmallBytes)
      parcel->keep();
    else
      parcel->borrowed = parcel.get();
    mailboxes_.put(parcel);
  }

  const Time now = scheduler_.now();
  if (to == rank || (!is_probe && kind != Traffic::kPayload)) {
    parcel->completes_at = now;
    arrive(*parcel, now);
    return parcel;
  }
  parcel->run = this;
  parcel->transit = network_.send(rank, to, data.bytes, is_probe, now);
  parcel->completes_at = parcel->transit.left();
  note_event(rank, parcel->completes_at);
  if (parcel->transit.has_arrived())
    arrive(*parcel, parcel->transit.at());
  else
    scheduler_.call_at(parcel->transit.at(), rank, parcel);
  return parcel;
}

Request InprocRun::irecv(int rank, Bytes data, int from, Tag tag) {
  check_tag(tag, tag);
  CHECK(from >= 0 && from < num_ranks() && data.bytes >= 0);
  auto receive = make_recycled<InprocRequest>();
  receive->rank = rank;
  receive->peer = from;
  receive->tag = tag;
  receive->data = static_cast<std::byte*>(data.data);
  receive->bytes = data.bytes;
  if (const auto parcel = mailboxes_.take(rank, from, tag))
    deliver(*parcel, receive);
  else
    mailboxes_.post(receive);
  return receive;
}

Message InprocRun::recv_any(int rank, TagRange tags) {
  check_tag(tags.first, tags.last);
  std::vector<Listener>& listeners = listeners_[rank];
  Strand& self = scheduler_.current();
  for (;;) {
    const Mailboxes::Arrival* const soonest = mailboxes_.soonest(rank, tags);
    const Time arrival = soonest == nullptr ? kNever : soonest->at;
    if (arrival <= self.time) {
      const auto parcel = mailboxes_.take(rank, soonest->from, soonest->tag);
      if (parcel->borrowed != nullptr) parcel->keep();
      if (has_values(parcel->data))
        return {parcel->rank, parcel->tag, Payload(std::move(parcel->copy))};
      return {parcel->rank, parcel->tag, Payload(parcel->data, parcel->bytes)};
    }
    listeners.push_back({tags, &self});
    if (arrival < kNever) {
      mailboxes_.prefetch(rank, *soonest);
      scheduler_.block_until(arrival);
    } else {
      scheduler_.block([&tags] {
        return Awaited{
            fmt::format("a receive from any worker, {} (tags {} to {})",
                        tags::name_of(tags.first), tags.first, tags.last)};
      });
    }
    std::erase_if(listeners, [&](const auto& l) { return l.strand == &self; });
  }
}

Time InprocRun::wait(const Request& request) {
  if (request == nullptr) return scheduler_.now();
  InprocRequest& state = state_of(request);
  if (state.borrowed != nullptr) state.borrowed->keep();
  while (state.completes_at == kNever) {
    state.waiting = &scheduler_.current();
    scheduler_.block([this, &state] {
      return Awaited{
          fmt::format("a receive of {} bytes from {}, {} (tag {})", state.bytes,
                      name_of(state.peer), tags::name_of(state.tag), state.tag),
          state.peer};
    });
  }
  scheduler_.sleep_until(state.completes_at);
  if (state.error) fail(ExitCode::kInternal, "{}", *state.error);
  return state.completes_at;
}

bool InprocRun::test(const Request& request) {
  if (request == nullptr) return true;
  scheduler_.check_alive();
  InprocRequest& state = state_of(request);
  Strand& self = scheduler_.current();
  self.polled = {};
  if (state.completes_at > self.time) {
    if (state.completes_at == kNever) self.polled = {state.peer, state.tag};
    return false;
  }
  if (state.borrowed != nullptr) state.borrowed->keep();
  if (state.error) fail(ExitCode::kInternal, "{}", *state.error);
  return true;
}

void InprocRun::native_all_reduce(std::span<float> values,
                                  const Group& group,
                                  Traffic kind) {
  scheduler_.check_alive();
  Strand& self = scheduler_.current();
  const int n = group.size();
  const auto elems = static_cast<int64_t>(values.size());
  traffic_[self.rank].count(kind,
                            all_reduce_bytes(CollectiveAlgorithm::kNative, n,
                                             group.position, elems, Wire::kF32),
                            2 * (n - 1));
  traffic_[self.rank].is_modelled = true;
  std::deque<Gathering>& open = gatherings_[group.members];
  auto mine = std::find_if(open.begin(), open.end(), [&](const auto& g) {
    return g.waiting[group.position] == nullptr;
  });
  if (mine == open.end()) {
    open.push_back({std::vector<std::span<float>>(n),
                    std::vector<Strand*>(n, nullptr), 0});
    mine = std::prev(open.end());
  }
  mine->values[group.position] = values;
  mine->waiting[group.position] = &self;
  if (++mine->num_arrived < n) {
    scheduler_.block([&] {
      const auto gathering = std::ranges::find_if(
          gatherings_.at(group.members),
          [&](auto& one) { return one.waiting[group.position] == &self; });
      const auto missing = std::ranges::find(gathering->waiting, nullptr);
      const int rank = group.members[missing - gathering->waiting.begin()];
      return Awaited{
          fmt::format("worker {} in a native all-reduce of {} workers", rank,
                      n),
          rank};
    });
    return;
  }
  const Gathering complete = std::move(*mine);
  open.erase(mine);
  if (open.empty()) gatherings_.erase(group.members);
  const Time end = network_.ring(group.members, elems, self.time);
  for (const auto& other : complete.values)
    CHECK_MSG(other.size() == values.size(),
              "members of a native all-reduce bring {} and {} values",
              other.size(), values.size());
  const size_t count = has_values(values.data()) ? values.size() : 0;
  for (size_t i = 0; i < count; ++i) {
    float sum = complete.values[0][i];
    for (int p = 1; p < n; ++p) sum += complete.values[p][i];
    for (int p = 0; p < n; ++p) complete.values[p][i] = sum;
  }
  for (Strand* member : complete.waiting) {
    if (member != &self) scheduler_.wake(*member, end);
  }
  scheduler_.sleep_until(end);
}

}  // namespace syncopate::inproc
