#include "cuda/sort.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "support/recorded.h"
#include "support/test_device.h"

namespace syncopate {
namespace {

using namespace test;

std::vector<int32_t> random_keys(int64_t n, int64_t R, uint64_t seed) {
  Rng rng(seed, Purpose::kTest);
  std::vector<int32_t> keys;
  for (int64_t i = 0; i < n; ++i)
    keys.push_back(static_cast<int32_t>(rng.below(static_cast<uint64_t>(R))));
  return keys;
}

std::vector<int32_t> fetch(TestContext& test, const int32_t* from, int64_t n) {
  std::vector<int32_t> values(static_cast<size_t>(n));
  test.context.stream().synchronize();
  test.device.copy(values.data(), from, n * int64_t{sizeof(int32_t)},
                   test.context.stream());
  test.context.stream().synchronize();
  return values;
}

void expect_sorted(TestContext& test,
                   const cuda::SortedKeys& sorted,
                   std::vector<int32_t> keys,
                   int64_t R) {
  for (int32_t& key : keys)
    if (key < 0 || key > R) key = static_cast<int32_t>(R);
  std::vector<int32_t> places(keys.size());
  std::iota(places.begin(), places.end(), 0);
  std::ranges::stable_sort(places, {}, [&](int32_t place) {
    return keys[static_cast<size_t>(place)];
  });
  const int64_t n = std::ssize(keys);
  EXPECT_EQ(fetch(test, sorted.places, n), places);
  std::ranges::sort(keys);
  EXPECT_EQ(fetch(test, sorted.keys, n), keys);
}

// Around warps, chunks of 2,048 and digits of 8 bits; with 1,000 chunks a
// thread adds up more than one.
TEST(Sort, FollowsAStableSort) {
  for (const int64_t n : {1, 33, 2048, 2049, 20000})
    for (const int64_t R : {int64_t{1}, int64_t{255}, int64_t{256},
                            int64_t{65536}, (int64_t{1} << 31) - 1}) {
      SCOPED_TRACE(fmt::format("n {} R {}", n, R));
      TestContext test;
      const auto keys = random_keys(n, R, 1);
      const DeviceValues<int32_t> memory(keys);
      expect_sorted(test, cuda::sort_by_key(test.context, memory, n, R), keys,
                    R);
    }
  TestContext test;
  const auto keys = random_keys(600000, 1000, 1);
  const DeviceValues<int32_t> memory(keys);
  expect_sorted(test,
                cuda::sort_by_key(test.context, memory, std::ssize(keys), 1000),
                keys, 1000);
}

TEST(Sort, KeysOutsideComeLast) {
  TestContext test;
  for (const int64_t R : {1, 255, 256, 1000}) {
    auto keys = random_keys(3000, R, 2);
    for (size_t i = 0; i < keys.size(); i += 7)
      keys[i] = i % 2 == 0 ? -1 - static_cast<int32_t>(i)
                           : std::numeric_limits<int32_t>::max();
    keys[1] = static_cast<int32_t>(R);
    const DeviceValues<int32_t> memory(keys);
    expect_sorted(test,
                  cuda::sort_by_key(test.context, memory, std::ssize(keys), R),
                  keys, R);
  }
}

TEST(Sort, OfNothing) {
  TestContext test;
  const DeviceValues<int32_t> memory(int32_t{5});
  cuda::sort_by_key(test.context, memory, 0, 10);
  EXPECT_THROW(
      cuda::sort_by_key(test.context, memory, cuda::kMaxSortedKeys + 1, 10),
      Error);
}

TEST(Sort, RecordedSortsWhatIsThere) {
  TestContext test;
  const auto keys = random_keys(5000, 70000, 1);
  const DeviceValues<int32_t> memory(keys);
  cuda::SortedKeys sorted{};
  const auto step = recorded(test, [&] {
    sorted = cuda::sort_by_key(test.context, memory, std::ssize(keys), 70000);
  });
  for (const uint64_t seed : {2, 3}) {
    const auto others = random_keys(5000, 70000, seed);
    test.device.copy(memory.data(), others.data(),
                     std::ssize(others) * int64_t{sizeof(int32_t)},
                     *test.stream);
    step();
    expect_sorted(test, sorted, others, 70000);
  }
}

}  // namespace
}  // namespace syncopate
