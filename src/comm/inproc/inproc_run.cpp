// SPDX-License-Identifier: Apache-2.0
#include "comm/inproc/inproc_run.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "comm/collectives.h"
#include "comm/inproc/inproc_endpoint.h"
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

void Parcel::keep() {
  copy.assign(data, data + bytes);
  data = copy.data();
  send->parcel = nullptr;
}

InprocRun::InprocRun(int workers, const NetworkCost& cost)
    : cost_(cost),
      mailboxes_(workers),
      traffic_(workers),
      link_free_(workers, 0),
      events_(workers),
      worker_errors_(workers),
      tasks_(workers) {}

void InprocRun::start_worker(int rank,
                             const std::function<void(Endpoint&)>& body) {
  const std::string name = fmt::format("worker {}", rank);
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
  task->strand = scheduler_.spawn(rank, fmt::format("worker {}/{}", rank, name),
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
                                    for (Strand* joiner : task->joiners) {
                                      scheduler_.wake(*joiner, self.time);
                                    }
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
    scheduler_.block("the end of " + task.strand->name);
  }
  scheduler_.sleep_until(task.ended_at);
  if (task.is_joined || !task.error) return;
  task.is_joined = true;
  std::erase(tasks_[task.strand->rank], handle);
  std::rethrow_exception(task.error);
}

std::exception_ptr InprocRun::first_error() const {
  for (int rank = 0; rank < size(); ++rank) {
    const std::exception_ptr& error = worker_errors_[rank];
    if (error && !is_peer_lost(error)) return error;
    for (const auto& task : tasks_[rank]) {
      if (task->error && !is_peer_lost(task->error)) return task->error;
    }
  }
  if (!scheduler_.deadlock().empty()) {
    return std::make_exception_ptr(
        Error(ExitCode::kInternal, scheduler_.deadlock()));
  }
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
  if (const std::exception_ptr error = first_error()) {
    std::rethrow_exception(error);
  }
}

void InprocRun::note_event(int rank, Time at) {
  std::set<Time>& events = events_[rank];
  const Time now = scheduler_.current().time;
  events.erase(events.begin(), events.upper_bound(now));
  if (at > now) events.insert(at);
}

Time InprocRun::next_event(int rank) {
  const auto next = events_[rank].upper_bound(scheduler_.current().time);
  return next == events_[rank].end() ? -std::numeric_limits<Time>::infinity()
                                     : *next;
}

// Only a scheme's exchanges cost time: consensus, evaluation, the initial model
// and checkpoints take no virtual time.
InprocRun::Passage InprocRun::carry(int from,
                                    int to,
                                    int64_t bytes,
                                    Traffic kind) {
  const Time now = scheduler_.current().time;
  const bool is_probe = kind == Traffic::kProbe;
  if (to == from || (!is_probe && kind != Traffic::kPayload)) return {now, now};
  Time leaves = std::max(link_free_[from], now);
  const NetworkCost::Link link = link_of(from, leaves);
  if (is_probe) return {leaves + cost_.latency_s + link.added_s, now};
  if (cost_.bytes_per_s > 0) {
    leaves += static_cast<double>(bytes) * link.slowdown / cost_.bytes_per_s;
  }
  link_free_[from] = leaves;
  return {leaves + cost_.latency_s + link.added_s, leaves};
}

NetworkCost::Link InprocRun::link_of(int rank, Time now) const {
  return cost_.link ? cost_.link(rank, now) : NetworkCost::Link{};
}

// Each chunk passes every worker 2 (N - 1) / N times; all workers send the same
// number of bytes, so the slowest link determines the time.
double InprocRun::ring_s(const std::vector<int>& members, int64_t elems) {
  const auto n = static_cast<double>(members.size());
  const Time now = scheduler_.current().time;
  double seconds = 2 * (n - 1) * cost_.latency_s;
  double slowdown = 1;
  for (const int rank : members) {
    const NetworkCost::Link link = link_of(rank, now);
    seconds += 2 * (n - 1) / n * link.added_s;
    slowdown = std::max(slowdown, link.slowdown);
  }
  if (cost_.bytes_per_s > 0) {
    seconds += 2.0 * (n - 1) / n * 4.0 * static_cast<double>(elems) * slowdown /
               cost_.bytes_per_s;
  }
  return seconds;
}

void InprocRun::check_tag(Tag first, Tag last) const {
  scheduler_.check_alive();
  CHECK_MSG(first >= 0 && first <= last && last <= tags::kMaxTag, "tags {}..{}",
            first, last);
}

void InprocRun::deliver(const Parcel& parcel, InprocRequest& receive) {
  if (parcel.bytes == receive.bytes) {
    if (parcel.bytes > 0) {
      std::memcpy(receive.data, parcel.data, static_cast<size_t>(parcel.bytes));
    }
  } else {
    receive.error = describe_size_mismatch(
        receive.rank, parcel.from, parcel.tag, receive.bytes, parcel.bytes);
  }
  receive.is_matched = true;
  receive.completes_at = parcel.arrival;
  parcel.send->parcel = nullptr;
  note_event(receive.rank, parcel.arrival);
  if (receive.waiting != nullptr) {
    scheduler_.wake(*receive.waiting, parcel.arrival);
  }
}

Request InprocRun::isend(int rank,
                         ConstBytes data,
                         int to,
                         Tag tag,
                         Traffic kind) {
  check_tag(tag, tag);
  CHECK(to >= 0 && to < size() && data.bytes >= 0);
  scheduler_.note_progress();
  // A message to oneself is not traffic.
  if (to != rank) traffic_[rank].count(kind, data.bytes);
  auto send = std::make_shared<InprocRequest>();
  auto parcel = std::make_unique<Parcel>();
  send->is_send = true;
  send->rank = parcel->from = rank;
  send->peer = to;
  send->tag = parcel->tag = tag;
  parcel->data = static_cast<const std::byte*>(data.data);
  send->bytes = parcel->bytes = data.bytes;
  const Passage passage = carry(rank, to, data.bytes, kind);
  parcel->arrival = passage.arrival;
  send->completes_at = passage.sent;
  parcel->send = send;
  parcel->serial = num_sent_++;
  note_event(rank, send->completes_at);

  Mailbox& box = mailboxes_[to];
  const auto posted = box.receives.find({tag, rank});
  if (posted != box.receives.end()) {
    const std::shared_ptr<InprocRequest> receive = posted->second.front();
    posted->second.pop_front();
    if (posted->second.empty()) box.receives.erase(posted);
    deliver(*parcel, *receive);
    return send;
  }
  if (data.bytes <= kSmallBytes) {
    parcel->keep();
  } else {
    send->parcel = parcel.get();
  }
  const Time arrival = parcel->arrival;
  box.parcels[{tag, rank}].push_back(std::move(parcel));
  for (const Mailbox::Listener& listener : box.listeners) {
    if (listener.tags.first <= tag && tag <= listener.tags.last) {
      scheduler_.wake(*listener.strand, arrival);
    }
  }
  return send;
}

Request InprocRun::irecv(int rank, Bytes data, int from, Tag tag) {
  check_tag(tag, tag);
  CHECK(from >= 0 && from < size() && data.bytes >= 0);
  auto receive = std::make_shared<InprocRequest>();
  receive->rank = rank;
  receive->peer = from;
  receive->tag = tag;
  receive->data = static_cast<std::byte*>(data.data);
  receive->bytes = data.bytes;
  Mailbox& box = mailboxes_[rank];
  const auto found = box.parcels.find({tag, from});
  if (found == box.parcels.end()) {
    box.receives[{tag, from}].push_back(receive);
    return receive;
  }
  const std::unique_ptr<Parcel> parcel = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) box.parcels.erase(found);
  deliver(*parcel, *receive);
  return receive;
}

Message InprocRun::recv_any(int rank, TagRange tags) {
  check_tag(tags.first, tags.last);
  Mailbox& box = mailboxes_[rank];
  Strand& self = scheduler_.current();
  for (;;) {
    auto soonest = box.parcels.end();
    const auto is_before = [](const Parcel& a, const Parcel& b) {
      return std::tie(a.arrival, a.from, a.serial) <
             std::tie(b.arrival, b.from, b.serial);
    };
    for (auto it = box.parcels.lower_bound({tags.first, -1});
         it != box.parcels.end() && it->first.first <= tags.last; ++it) {
      if (soonest == box.parcels.end() ||
          is_before(*it->second.front(), *soonest->second.front())) {
        soonest = it;
      }
    }
    const bool found = soonest != box.parcels.end();
    if (found && soonest->second.front()->arrival <= self.time) {
      Parcel& parcel = *soonest->second.front();
      if (parcel.send->parcel != nullptr) parcel.keep();
      Message message{parcel.from, parcel.tag, std::move(parcel.copy)};
      soonest->second.pop_front();
      if (soonest->second.empty()) box.parcels.erase(soonest);
      return message;
    }
    box.listeners.push_back({tags, &self});
    std::string what =
        fmt::format("any message with tag {} to {}", tags.first, tags.last);
    if (found) {
      scheduler_.block_until(soonest->second.front()->arrival, std::move(what));
    } else {
      scheduler_.block(std::move(what));
    }
    std::erase_if(box.listeners,
                  [&](const auto& l) { return l.strand == &self; });
  }
}

void InprocRun::wait(const Request& request) {
  if (request == nullptr) return;
  InprocRequest& state = state_of(request);
  if (state.parcel != nullptr) state.parcel->keep();
  while (!state.is_send && !state.is_matched) {
    state.waiting = &scheduler_.current();
    scheduler_.block(describe_wait(state.peer, state.tag));
  }
  scheduler_.sleep_until(state.completes_at);
  if (!state.error.empty()) fail(ExitCode::kInternal, "{}", state.error);
}

bool InprocRun::test(const Request& request) {
  if (request == nullptr) return true;
  scheduler_.check_alive();
  InprocRequest& state = state_of(request);
  if (!state.is_send && !state.is_matched) return false;
  if (state.completes_at > scheduler_.current().time) return false;
  if (state.parcel != nullptr) state.parcel->keep();
  if (!state.error.empty()) fail(ExitCode::kInternal, "{}", state.error);
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
    scheduler_.block("the other members of a native all-reduce");
    return;
  }
  const Gathering complete = std::move(*mine);
  open.erase(mine);
  if (open.empty()) gatherings_.erase(group.members);
  const Time end = self.time + (n > 1 ? ring_s(group.members, elems) : 0);
  for (const auto& other : complete.values) {
    CHECK_MSG(other.size() == values.size(),
              "members of a native all-reduce bring {} and {} values",
              other.size(), values.size());
  }
  for (size_t i = 0; i < values.size(); ++i) {
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
