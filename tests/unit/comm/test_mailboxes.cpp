// The queues of messages and receives, against a map of lists.
#include <gtest/gtest.h>

#include <iterator>
#include <list>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/rng.h"
#include "comm/inproc/mailboxes.h"

namespace syncopate::inproc {
namespace {

std::shared_ptr<Parcel> message(int to, int from, Tag tag, int64_t serial) {
  auto parcel = std::make_shared<Parcel>();
  parcel->peer = to;
  parcel->rank = from;
  parcel->tag = tag;
  parcel->serial = serial;
  return parcel;
}

// Few enough workers and tags that queues come and go beside each other.
TEST(Mailboxes, KeepEachQueueInOrder) {
  constexpr int kWorkers = 40;
  Mailboxes boxes(kWorkers);
  std::map<std::tuple<int, int, Tag>, std::list<int64_t>> expected;
  Rng rng(1, Purpose::kTies, 0, 0);
  const auto below = [&](uint64_t n) {
    return static_cast<int>(rng.next_u64() % n);
  };
  for (int64_t i = 0; i < 200'000; ++i) {
    const int to = below(kWorkers), from = below(kWorkers);
    const Tag tag = below(5);
    auto& queue = expected[{to, from, tag}];
    // First they become more, then fewer.
    if (below(100) < (i < 100'000 ? 60 : 40)) {
      boxes.put(message(to, from, tag, i));
      queue.push_back(i);
      continue;
    }
    EXPECT_EQ(boxes.take_receive(to, from, tag), nullptr);
    const auto taken = boxes.take(to, from, tag);
    ASSERT_EQ(taken == nullptr, queue.empty());
    if (taken == nullptr) continue;
    EXPECT_EQ(taken->serial, queue.front());
    queue.pop_front();
  }
}

// A sender's second message is behind its first, whenever it arrives.
TEST(Mailboxes, TheSoonestIsAmongTheFirstOfEachSender) {
  Mailboxes boxes(1);
  const auto arrive = [&](Parcel& parcel, Time at) {
    parcel.arrival = at;
    boxes.note_arrival(parcel);
  };
  const auto first = message(0, 1, 7, 0), second = message(0, 1, 7, 1);
  const auto other = message(0, 2, 8, 2);
  for (const auto& parcel : {first, second, other}) boxes.put(parcel);
  const auto soonest = [&](TagRange tags) {
    const Mailboxes::Arrival* const arrival = boxes.soonest(0, tags);
    return arrival == nullptr ? nullptr : arrival->parcel;
  };
  EXPECT_EQ(soonest({7, 8}), nullptr);
  arrive(*second, 1);
  EXPECT_EQ(soonest({7, 8}), nullptr);
  arrive(*other, 3);
  EXPECT_EQ(soonest({7, 8}), other.get());
  arrive(*first, 2);
  EXPECT_EQ(soonest({7, 8}), first.get());
  EXPECT_EQ(soonest({8, 9}), other.get());
  EXPECT_EQ(boxes.take(0, 1, 7), first);
  EXPECT_EQ(soonest({7, 8}), second.get());
}

// Arrivals become known in any order, and receives take any of them.
TEST(Mailboxes, TheSoonestIsTheFirstOfASortedSet) {
  Mailboxes boxes(1);
  std::set<std::pair<Time, int64_t>> expected;
  std::map<int64_t, Time> arrivals;  // of what is there, by serial and sender
  Rng rng(2, Purpose::kTies, 0, 0);
  const auto below = [&](size_t n) {
    return static_cast<int>(rng.next_u64() % n);
  };
  for (int i = 0; i < 20'000; ++i) {
    if (below(100) < (i < 10'000 ? 60 : 40)) {
      const auto parcel = message(0, i, 7, i);
      // Mostly after the others, sometimes at the same time or before.
      parcel->arrival = below(10) > 0 ? i / 2 : below(10'000);
      boxes.put(parcel);
      boxes.note_arrival(*parcel);
      expected.emplace(parcel->arrival, i);
      arrivals.emplace(i, parcel->arrival);
    } else if (!expected.empty()) {
      const auto first =
          below(2) > 0 ? arrivals.find(expected.begin()->second)
                       : std::next(arrivals.begin(), below(arrivals.size()));
      const auto [sender, at] = *first;
      arrivals.erase(first);
      expected.erase({at, sender});
      EXPECT_EQ(boxes.take(0, static_cast<int>(sender), 7)->serial, sender);
    }
    const Mailboxes::Arrival* const soonest = boxes.soonest(0, {7, 7});
    ASSERT_EQ(soonest == nullptr, expected.empty());
    if (soonest == nullptr) continue;
    EXPECT_EQ(std::pair(soonest->at, soonest->serial), *expected.begin());
    EXPECT_EQ(soonest->from, soonest->serial);
  }
}

}  // namespace
}  // namespace syncopate::inproc
