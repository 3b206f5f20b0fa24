#include "machine/link_timing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace syncopate {
namespace {

// A link as its two ends see it. The first exchange takes four more latencies,
// as long as TCP's windows are small.
struct FakeLink {
  double mbit_s, latency_s;
  std::vector<int64_t> exchanged = {};
  double passed_s = 0;

  double exchange_s(int64_t bytes) {
    const double seconds = latency_s +
                           static_cast<double>(bytes) * 8e-6 / mbit_s +
                           (exchanged.empty() ? 4 * latency_s : 0);
    exchanged.push_back(bytes);
    passed_s += seconds;
    return seconds;
  }
};

double measured_mbit_s(FakeLink& link) {
  return mbit_s_of_all({link.latency_s, link.latency_s}, [&](int64_t bytes) {
    const double seconds = link.exchange_s(bytes);
    return std::vector<double>{seconds, seconds};
  })[0];
}

TEST(LinkTiming, ALatencyIsNoPartOfTheTimeOfMessages) {
  EXPECT_NEAR(message_s(0.020 + 64 * 2e-6, 0.020 + 2e-6, 64), 2e-6, 1e-12);
  EXPECT_EQ(message_s(0.019, 0.020, 64), 0);  // noise
}

TEST(LinkTiming, ALatencyDoesNotLowerTheRate) {
  for (const double latency_s : {0.0, 20e-6, 1e-3, 20e-3, 100e-3})
    for (const double mbit_s : {0.5, 10.0, 100.0, 1e3, 1e5}) {
      FakeLink link = {mbit_s, latency_s};
      EXPECT_NEAR(measured_mbit_s(link) / mbit_s, 1, 0.03)
          << mbit_s << " Mbit/s, " << latency_s << " s";
    }
}

// Long enough for a shaped or busy link to show its rate, but no longer than
// the probe may take.
TEST(LinkTiming, ExchangesTakeLongEnoughButNotTooLong) {
  for (const double latency_s : {0.0, 20e-6, 20e-3})
    for (const double mbit_s : {5.0, 10.0, 100.0, 1e3, 1e4}) {
      FakeLink link = {mbit_s, latency_s};
      measured_mbit_s(link);
      const double longest_s =
          static_cast<double>(std::ranges::max(link.exchanged)) * 8e-6 / mbit_s;
      EXPECT_GE(longest_s - latency_s, std::max(0.4, 20 * latency_s)) << mbit_s;
      EXPECT_LE(link.passed_s, 5) << mbit_s;
    }
  FakeLink loopback = {1e9, 0};
  measured_mbit_s(loopback);
  EXPECT_LE(std::ranges::max(loopback.exchanged), int64_t{1} << 30);
}

TEST(LinkTiming, EveryRankHasTheRateOfItsLinkAndNoneIfItSitsOut) {
  FakeLink slow = {20, 20e-3}, quick = {400, 1e-3};
  const std::vector<double> rates = mbit_s_of_all(
      {slow.latency_s, quick.latency_s, 5e-3}, [&](int64_t bytes) {
        return std::vector<double>{slow.exchange_s(bytes),
                                   quick.exchange_s(bytes), 0};
      });
  EXPECT_NEAR(rates[0], 20, 0.2);
  EXPECT_NEAR(rates[1], 400, 4);
  EXPECT_EQ(rates[2], 0);
}

}  // namespace
}  // namespace syncopate
