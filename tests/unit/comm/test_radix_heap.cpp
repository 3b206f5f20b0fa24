// The queue of a simulation's events, against the standard library's.
#include <gtest/gtest.h>

#include <queue>
#include <tuple>
#include <vector>

#include "base/rng.h"
#include "comm/inproc/radix_heap.h"

namespace syncopate::inproc {
namespace {

struct Item {
  Time at;
  int place;
  bool operator>(const Item& other) const { return place > other.place; }
};

struct Later {
  bool operator()(const Item& a, const Item& b) const {
    return std::tie(a.at, a.place) > std::tie(b.at, b.place);
  }
};

// Items come at the time of the last one taken or later: close together, far
// apart, and many at the same time.
TEST(RadixHeap, TakesItemsInTheOrderOfAPriorityQueue) {
  for (const double step : {0.0, 1e-9, 1e-3, 1e6}) {
    Rng rng(7, Purpose::kTest);
    RadixHeap<Item> heap;
    std::priority_queue<Item, std::vector<Item>, Later> queue;
    Time now = 0;
    int place = 0;
    for (int i = 0; i < 20'000; ++i) {
      const bool takes = !queue.empty() && rng.uniform() < 0.48;
      if (takes) {
        const Item expected = queue.top();
        queue.pop();
        const Item found = heap.pop();
        ASSERT_EQ(found.at, expected.at);
        ASSERT_EQ(found.place, expected.place);
        now = found.at;
      } else {
        const auto places = static_cast<int>(rng.next_u64() % 1000);
        const Item item{
            now + step * static_cast<int>(4 * rng.uniform()) * rng.uniform(),
            places * 100'000 + place++};
        heap.push(item);
        queue.push(item);
      }
      ASSERT_EQ(heap.is_empty(), queue.empty());
    }
  }
}

}  // namespace
}  // namespace syncopate::inproc
