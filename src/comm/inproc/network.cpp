// SPDX-License-Identifier: Apache-2.0
#include "comm/inproc/network.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace syncopate::inproc {

Network::Network(int workers, const NetworkCost& cost)
    : cost_(cost),
      workers_(workers),
      links_(static_cast<size_t>(kNumKinds) * workers) {
  CHECK(cost.by_worker.empty() || std::ssize(cost.by_worker) == workers);
  for (int rank = 0; rank < workers; ++rank) {
    for (const Kind kind : {kOut, kIn})
      links_[link_of(kind, rank)] = {cost_of(rank).bytes_per_s, cost.message_s};
    for (const Kind kind : {kInsideOut, kInsideIn})
      links_[link_of(kind, rank)] = {cost.inside.bytes_per_s, cost.message_s};
    for (const Kind kind : {kUp, kDown})
      links_[link_of(kind, rank)] = {cost.uplink_bytes_per_s};
    for (const Kind kind : {kFromDevice, kToDevice})
      links_[link_of(kind, rank)] = {cost.device_bytes_per_s};
    for (const Kind kind : {kServerOut, kServerIn})
      links_[link_of(kind, rank)] = {cost.server_bytes_per_s, cost.message_s};
  }
}

int Network::link_of(Kind kind, int rank) const {
  return kind * workers_ + (is_shared(kind) ? host_of(rank) : worker_of(rank));
}

LinkCost Network::cost_of(int rank) const {
  if (!cost_.by_worker.empty()) return cost_.by_worker[rank];
  return {cost_.latency_s, cost_.bytes_per_s};
}

bool Network::is_sending(int link) const {
  const Kind kind = kind_of(link);
  return kind == kOut || kind == kInsideOut || kind == kServerOut;
}

Time Network::latency_s(int from, int to) const {
  if (is_server(from)) return cost_of(to).latency_s;
  if (is_server(to)) return cost_of(from).latency_s;
  return (cost_of(from).latency_s + cost_of(to).latency_s) / 2;
}

// A message always passes the sender's link, whose state may delay it; others
// only where they take time, so that its arrival is known as early as possible.
// A server has only links of its own kinds, and a worker none of these.
Transit Network::route(int from, int to, double bytes) const {
  Transit message;
  message.from_ = from;
  message.bytes_ = bytes;
  const auto add = [&](Kind kind, int rank) {
    if (is_of_server(kind) != is_server(rank)) return;
    const int link = link_of(kind, rank);
    if (!is_sending(link) && !links_[link].takes_time()) return;
    message.links_[message.num_hops_++] = link;
  };
  const bool has_server = is_server(from) || is_server(to);
  add(kFromDevice, from);
  if (cost_.island > 0 && !has_server && host_of(from) == host_of(to)) {
    message.latency_s_ = cost_.inside.latency_s;
    add(kInsideOut, from);
    add(kInsideIn, to);
  } else {
    message.latency_s_ = latency_s(from, to);
    add(kOut, from);
    add(kServerOut, from);
    if (cost_.island > 0) {
      add(kUp, from);
      add(kDown, to);
    }
    add(kIn, to);
    add(kServerIn, to);
  }
  add(kToDevice, to);
  return message;
}

NetworkCost::Link Network::state_of(const Transit& message,
                                    int link,
                                    Time now) const {
  if (!cost_.link || !is_sending(link) || is_server(message.from_)) return {};
  return cost_.link(message.from_, now);
}

Time Network::service_s(const Transit& message,
                        int link,
                        double slowdown) const {
  const Link& properties = links_[link];
  Time seconds = properties.message_s;
  if (properties.bytes_per_s > 0)
    seconds += message.bytes_ * slowdown / properties.bytes_per_s;
  return seconds;
}

Transit Network::send(int from,
                      int to,
                      int64_t bytes,
                      bool is_probe,
                      Time now) {
  Transit message = route(from, to, static_cast<double>(bytes));
  message.is_probe_ = is_probe;
  message.first_ = message.last_ = now;
  pass(message);
  return message;
}

void Network::leave_boundary(Time earliest) {
  if (!std::exchange(is_at_boundary_, false)) return;
  for (Link& link : links_) {
    link.drained = 0;
    link.forget_until(earliest);
  }
}

void Network::Link::forget_until(Time time) {
  if (later.empty() || later.front().until > time) return;
  later.erase(later.begin(), after(time));
}

// The first that ends after `time`.
std::vector<Network::Interval>::const_iterator Network::Link::after(
    Time time) const {
  return std::ranges::upper_bound(later, time, {}, &Interval::until);
}

void Network::Link::take(Time from, Time until, bool is_at_boundary) {
  if (!takes_time()) return;
  if (!is_at_boundary) {
    free = until;
    return forget_until(free);
  }
  drained = until;
  if (until == from) return;  // an empty message delays none
  const auto begin = later.begin() + (after(from) - later.cbegin());
  const auto end =
      std::ranges::lower_bound(begin, later.end(), until, {}, &Interval::from);
  const auto next = later.erase(begin, end);  // what it was sent around
  if (next != later.begin() && std::prev(next)->until == from)
    std::prev(next)->until = until;
  else
    later.insert(next, {from, until});
}

Network::Place Network::place_of(const Transit& message, int link) const {
  const Link& queue = links_[link];
  Place place{.begin = message.first_};
  auto taken = queue.later.end();
  if (queue.takes_time()) {
    place.begin = std::max({message.first_, queue.free, queue.drained});
    taken = queue.after(place.begin);
    // A message that takes no time passes at the moment when another begins.
    const auto is_in_the_way = [&] {
      if (taken == queue.later.end()) return false;
      if (taken->from != place.begin) return taken->from < place.begin;
      return !message.is_probe_ && service_s(message, link, 1) > 0;
    };
    for (; is_in_the_way(); ++taken) place.begin = taken->until;
  }
  place.state = state_of(message, link, place.begin);
  place.service = service_s(message, link, place.state.slowdown);
  if (message.is_probe_) return place;
  for (; taken != queue.later.end() && taken->from < place.until(); ++taken)
    place.interrupted += taken->until - taken->from;
  return place;
}

void Network::pass(Transit& message) {
  const int link = message.links_[message.next_];
  const Time latency_s = is_sending(link) ? message.latency_s_ : 0;
  const Place place = place_of(message, link);
  const Time spread = place.service + place.interrupted;
  // Bytes leave a link no sooner than they reach it, and evenly until the last.
  const Time end = std::max(place.until(), message.last_);
  Time first = place.begin;
  if (spread < message.spread_)
    first = std::max(end - message.spread_, message.first_);
  message.spread_ = std::max(spread, message.spread_);
  if (message.next_ == 0)
    message.left_ = message.is_probe_ ? message.first_ : end;
  if (!message.is_probe_)
    links_[link].take(place.begin, place.until(), is_at_boundary_);
  message.first_ = first + latency_s + place.state.added_s;
  message.last_ = end + latency_s + place.state.added_s;
  ++message.next_;
}

std::optional<Network::AlikeLinks> Network::alike_links() const {
  const LinkCost first = cost_of(0);
  for (int rank = 1; rank < workers_; ++rank) {
    const LinkCost other = cost_of(rank);
    if (other.latency_s != first.latency_s ||
        other.bytes_per_s != first.bytes_per_s)
      return std::nullopt;
  }
  if (cost_.sums == NetworkCost::Sums::kSent || cost_.link ||
      cost_.island > 0 || cost_.device_bytes_per_s > 0)
    return std::nullopt;
  return AlikeLinks{first.latency_s, cost_.message_s, first.bytes_per_s};
}

Time Network::ring(std::span<const int> members, int64_t elems, Time now) {
  if (members.size() < 2) return now;
  const auto n = static_cast<double>(members.size());
  const double rounds = 2 * (n - 1);
  std::vector<Transit> messages;  // of a round
  Time begin = now;
  for (size_t i = 0; i < members.size(); ++i) {
    const int next = members[(i + 1) % members.size()];
    const Transit& message = messages.emplace_back(
        route(members[i], next, 4.0 * static_cast<double>(elems) / n));
    for (int h = 0; h < message.num_hops_; ++h)
      if (!is_shared(kind_of(message.links_[h])))
        begin = std::max(begin, links_[message.links_[h]].free);
  }
  Time slowest = 0, latencies = 0, shared_until = 0;
  for (const Transit& message : messages) {
    for (int h = 0; h < message.num_hops_; ++h) {
      const int link = message.links_[h];
      const NetworkCost::Link state = state_of(message, link, begin);
      const Time service = service_s(message, link, state.slowdown);
      slowest = std::max(slowest, service);
      latencies += (is_sending(link) ? message.latency_s_ : 0) + state.added_s;
      if (!links_[link].takes_time()) continue;
      Time& free = links_[link].free;
      if (is_shared(kind_of(link))) {
        free = std::max(free, begin) + rounds * service;
        shared_until = std::max(shared_until, free);
      } else {
        free = begin + rounds * service;
      }
    }
  }
  return std::max(begin + rounds * slowest, shared_until) +
         rounds * latencies / n;
}

LinkClocks Network::clocks(int rank) const {
  LinkClocks clocks;
  for (int kind = 0; kind < kNumKinds; ++kind) {
    const Link& link = links_[link_of(static_cast<Kind>(kind), rank)];
    if (kind < kNumOfWorkers)
      clocks.taken_until[kind] = link.free;
    else if (link.free > 0)
      clocks.taken_later.push_back({kind, 0, link.free});
    for (const auto& [from, until] : link.later)
      clocks.taken_later.push_back({kind, from, until});
  }
  return clocks;
}

void Network::set_clocks(int rank, const LinkClocks& clocks) {
  is_at_boundary_ = true;
  for (int kind = 0; kind < kNumKinds; ++kind) {
    Link& link = links_[link_of(static_cast<Kind>(kind), rank)];
    link.free = kind < kNumOfWorkers ? clocks.taken_until[kind] : 0;
    link.later.clear();
    for (const auto& [of_kind, from, until] : clocks.taken_later)
      if (of_kind == kind) link.later.push_back({from, until});
  }
}

}  // namespace syncopate::inproc
