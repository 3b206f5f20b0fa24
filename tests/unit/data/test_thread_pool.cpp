#include "data/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/error.h"

namespace syncopate {
namespace {

TEST(ThreadPool, DoesEachOnce) {
  for (const int threads : {1, 2, 7}) {
    ThreadPool pool(threads);
    for (const int64_t count : {0, 1, 5, 1000}) {
      std::vector<std::atomic<int>> done(static_cast<size_t>(count));
      pool.run(count, [&](int64_t i) { ++done[static_cast<size_t>(i)]; });
      for (const auto& times : done) EXPECT_EQ(times, 1);
    }
  }
}

TEST(ThreadPool, ServesSeveralCallers) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  std::vector<int64_t> sums(8, 0);
  for (size_t caller = 0; caller < sums.size(); ++caller)
    callers.emplace_back([&, caller] {
      for (int round = 0; round < 50; ++round) {
        std::atomic<int64_t> sum = 0;
        pool.run(20, [&](int64_t i) { sum += i; });
        sums[caller] += sum;
      }
    });
  for (std::thread& caller : callers) caller.join();
  for (const int64_t sum : sums) EXPECT_EQ(sum, 50 * 190);
}

TEST(ThreadPool, ThrowsTheErrorOfTheSmallestIndex) {
  for (const int threads : {1, 4}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 100; ++round) {
      std::atomic<int> begun = 0;
      try {
        pool.run(1000, [&](int64_t i) {
          ++begun;
          if (i >= 7) fail(ExitCode::kBadInput, "{}", i);
        });
        ADD_FAILURE() << "no error";
      } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()), "7");
      }
      EXPECT_LE(begun, 7 + threads);
    }
    std::atomic<int> done = 0;
    pool.run(5, [&](int64_t) { ++done; });
    EXPECT_EQ(done, 5);
  }
}

}  // namespace
}  // namespace syncopate
