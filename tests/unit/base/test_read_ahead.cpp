#include "base/read_ahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>

namespace syncopate {
namespace {

// A move-only item, which must be created for every read.
using Item = std::unique_ptr<int64_t>;

void make_number(int64_t n, Item& item) {
  item = std::make_unique<int64_t>(n);
}

TEST(ReadAhead, HandsOutItemsInOrder) {
  for (const int64_t ahead : {0, 1, 2, 7}) {
    ReadAhead<Item> items(ahead, make_number);
    for (int64_t n = 0; n < 100; ++n) {
      const Item item = std::move(items.next());
      ASSERT_TRUE(item);
      EXPECT_EQ(*item, n) << "ahead " << ahead;
    }
  }
}

// The caller's item stays as it is while others are made.
TEST(ReadAhead, LeavesTheItemOfTheCallerAlone) {
  ReadAhead<int64_t> items(3, [](int64_t n, int64_t& item) { item = n; });
  for (int64_t n = 0; n < 50; ++n) {
    const int64_t& item = items.next();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    EXPECT_EQ(item, n);
  }
}

TEST(ReadAhead, MakesAsManyAsItWasAskedToAndNoMore) {
  std::atomic<int64_t> num_made = 0;
  ReadAhead<int64_t> items(4, [&](int64_t, int64_t&) { ++num_made; });
  EXPECT_EQ(num_made, 0);  // nothing before the first is wanted
  items.next();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (num_made < 5 && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(num_made, 5);  // the caller's, and four that are ready
}

TEST(ReadAhead, AnErrorComesAfterTheItemsBeforeIt) {
  for (const int64_t ahead : {0, 3}) {
    ReadAhead<int64_t> items(ahead, [](int64_t n, int64_t& item) {
      if (n == 2) throw std::runtime_error("the third");
      item = n;
    });
    EXPECT_EQ(items.next(), 0);
    EXPECT_EQ(items.next(), 1);
    EXPECT_THROW(items.next(), std::runtime_error);
  }
}

TEST(ReadAhead, EndsWhileItsThreadWaits) {
  ReadAhead<int64_t> items(1, [](int64_t n, int64_t& item) { item = n; });
  items.next();
}

TEST(ReadAhead, CountsTheTimeThatTheCallerWaited) {
  ReadAhead<int64_t> items(0, [](int64_t, int64_t&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  items.next();
  items.next();
  EXPECT_GE(items.wait_s(), 0.010);
}

}  // namespace
}  // namespace syncopate
