// SPDX-License-Identifier: Apache-2.0
#include "comm/inproc/mailboxes.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace syncopate::inproc {
namespace {

constexpr size_t kMostEmpty = 4;  // tags of a receiver that may come again
constexpr size_t kNear = 4;       // slots of the hash table; see home_of()

Mailboxes::Arrival arrival_of(const Parcel& parcel) {
  return {parcel.arrival, parcel.place, parcel.serial,
          &parcel,        parcel.rank,  parcel.tag};
}

}  // namespace

void Parcel::keep() {
  if (has_values(data)) {
    copy.resize(static_cast<size_t>(bytes));
    if (bytes > 0) std::memcpy(copy.data(), data, copy.size());
    data = copy.data();
  }
  borrowed = nullptr;
}

Mailboxes::Mailboxes(int workers) : queues_(64), arrivals_(workers) {}

// A long queue must not be destroyed recursively.
Mailboxes::~Mailboxes() {
  for (Queue& queue : queues_)
    while (queue.first) queue.first = std::move(queue.first->next);
}

bool Mailboxes::Arrival::operator<(const Arrival& other) const {
  return std::tie(at, place, serial) <
         std::tie(other.at, other.place, other.serial);
}

void Mailboxes::put(std::shared_ptr<Parcel> parcel) {
  const Key key{parcel->peer, parcel->rank, parcel->tag};
  append(key, Queue::Of::kMessages, std::move(parcel));
}

void Mailboxes::post(std::shared_ptr<InprocRequest> receive) {
  const Key key{receive->rank, receive->peer, receive->tag};
  append(key, Queue::Of::kReceives, std::move(receive));
}

std::shared_ptr<Parcel> Mailboxes::take(int to, int from, Tag tag) {
  const size_t slot = slot_of({to, from, tag});
  if (queues_[slot].of != Queue::Of::kMessages) return nullptr;
  auto parcel = std::static_pointer_cast<Parcel>(pop(slot));
  if (parcel->arrival == kNever) return parcel;
  const auto arrivals = arrivals_[to].find(tag);
  arrivals->second.erase(arrival_of(*parcel));
  if (arrivals->second.is_empty() && arrivals_[to].size() > kMostEmpty)
    arrivals_[to].erase(arrivals);
  return parcel;
}

std::shared_ptr<InprocRequest> Mailboxes::take_receive(int to,
                                                       int from,
                                                       Tag tag) {
  const size_t slot = slot_of({to, from, tag});
  if (queues_[slot].of != Queue::Of::kReceives) return nullptr;
  return std::static_pointer_cast<InprocRequest>(pop(slot));
}

void Mailboxes::note_arrival(const Parcel& parcel) {
  if (!parcel.is_first || parcel.arrival == kNever) return;
  arrivals_[parcel.peer][parcel.tag].insert(arrival_of(parcel));
}

const Mailboxes::Arrival* Mailboxes::soonest(int to, TagRange tags) const {
  const auto& by_tag = arrivals_[to];
  const Arrival* soonest = nullptr;
  for (auto tag = by_tag.lower_bound(tags.first);
       tag != by_tag.end() && tag->first <= tags.last; ++tag) {
    if (tag->second.is_empty()) continue;
    const Arrival& first = tag->second.first();
    if (soonest == nullptr || first < *soonest) soonest = &first;
  }
  return soonest;
}

void Mailboxes::prefetch(int to, const Arrival& arrival) const {
  const auto load = [](const void* begin, size_t bytes) {
    constexpr size_t kLineBytes = 64;
    for (size_t at = 0; at < bytes; at += kLineBytes)
      __builtin_prefetch(static_cast<const std::byte*>(begin) + at);
  };
  load(arrival.parcel, sizeof(Parcel));
  const size_t home = home_of({to, arrival.from, arrival.tag});
  load(&queues_[home / kNear * kNear], kNear * sizeof(Queue));
}

void Mailboxes::Arrivals::insert(const Arrival& arrival) {
  if (is_empty() || sorted_.back() < arrival) {
    sorted_.push_back(arrival);
    return;
  }
  sorted_.insert(
      std::ranges::upper_bound(sorted_.begin() + static_cast<ptrdiff_t>(first_),
                               sorted_.end(), arrival, std::less<>()),
      arrival);
}

void Mailboxes::Arrivals::erase(const Arrival& arrival) {
  CHECK(!is_empty());
  const auto begin = sorted_.begin() + static_cast<ptrdiff_t>(first_);
  const auto place = begin->parcel == arrival.parcel
                         ? begin
                         : std::ranges::lower_bound(begin, sorted_.end(),
                                                    arrival, std::less<>());
  CHECK(place != sorted_.end() && place->parcel == arrival.parcel);
  if (place == begin)
    ++first_;
  else
    sorted_.erase(place);
  if (2 * first_ < sorted_.size()) return;
  sorted_.erase(sorted_.begin(),
                sorted_.begin() + static_cast<ptrdiff_t>(first_));
  first_ = 0;
}

// --- The hash table ----------------------------------------------------------

// Queues between two workers are within kNear slots if their tags differ by 1,
// 16 or 17, like those of a message, the next one and an answer.
size_t Mailboxes::home_of(const Key& key) const {
  const auto [low, high] = std::minmax(key.to, key.from);
  const auto tag = static_cast<uint64_t>(key.tag);
  // Steele, Lea & Flood 2014, SplitMix64.
  auto mix = (static_cast<uint64_t>(low) << 32 | static_cast<uint64_t>(high)) ^
             (tag & ~uint64_t{17}) * 0x9e3779b97f4a7c15;
  mix = (mix ^ mix >> 30) * 0xbf58476d1ce4e5b9;
  mix = (mix ^ mix >> 27) * 0x94d049bb133111eb;
  mix ^= mix >> 31;
  const uint64_t place = (key.to < key.from ? 2 : 0) + tag % 2;
  return (mix * kNear + place) & (queues_.size() - 1);
}

size_t Mailboxes::slot_of(const Key& key) const {
  size_t slot = home_of(key);
  while (queues_[slot].of != Queue::Of::kNothing && queues_[slot].key != key)
    slot = (slot + 1) & (queues_.size() - 1);
  return slot;
}

void Mailboxes::append(const Key& key,
                       Queue::Of of,
                       std::shared_ptr<Queued> item) {
  if (2 * num_queues_ >= queues_.size()) grow();
  Queue& queue = queues_[slot_of(key)];
  const bool is_message = of == Queue::Of::kMessages;
  if (queue.of != Queue::Of::kNothing) {
    CHECK(queue.of == of);
    queue.last->next = std::move(item);
    queue.last = queue.last->next.get();
    return;
  }
  ++num_queues_;
  if (is_message) static_cast<Parcel&>(*item).is_first = true;
  queue.key = key;
  queue.of = of;
  queue.last = item.get();
  queue.first = std::move(item);
}

std::shared_ptr<Queued> Mailboxes::pop(size_t slot) {
  Queue& queue = queues_[slot];
  std::shared_ptr<Queued> item = std::move(queue.first);
  queue.first = std::move(item->next);
  if (queue.first == nullptr) {
    free_slot(slot);
  } else if (queue.of == Queue::Of::kMessages) {
    auto& next = static_cast<Parcel&>(*queue.first);
    next.is_first = true;
    note_arrival(next);
  }
  return item;
}

// Moves those behind up that would not be found any more.
void Mailboxes::free_slot(size_t slot) {
  const size_t mask = queues_.size() - 1;
  for (size_t next = (slot + 1) & mask; queues_[next].of != Queue::Of::kNothing;
       next = (next + 1) & mask) {
    const size_t home = home_of(queues_[next].key);
    if (((next - home) & mask) < ((next - slot) & mask)) continue;
    queues_[slot] = std::move(queues_[next]);
    slot = next;
  }
  queues_[slot] = {};
  --num_queues_;
}

void Mailboxes::grow() {
  std::vector<Queue> old(2 * queues_.size());
  old.swap(queues_);
  for (Queue& queue : old)
    if (queue.of != Queue::Of::kNothing)
      queues_[slot_of(queue.key)] = std::move(queue);
}

}  // namespace syncopate::inproc
