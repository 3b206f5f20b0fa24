// The queues of messages and receives, against a map of lists.
#include <gtest/gtest.h>

#include <list>
#include <map>
#include <tuple>

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
  EXPECT_EQ(boxes.soonest(0, {7, 8}), nullptr);
  arrive(*second, 1);
  EXPECT_EQ(boxes.soonest(0, {7, 8}), nullptr);
  arrive(*other, 3);
  EXPECT_EQ(boxes.soonest(0, {7, 8}), other.get());
  arrive(*first, 2);
  EXPECT_EQ(boxes.soonest(0, {7, 8}), first.get());
  EXPECT_EQ(boxes.soonest(0, {8, 9}), other.get());
  EXPECT_EQ(boxes.take(0, 1, 7), first);
  EXPECT_EQ(boxes.soonest(0, {7, 8}), second.get());
}

}  // namespace
}  // namespace syncopate::inproc
