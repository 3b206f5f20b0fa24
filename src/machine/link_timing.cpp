#include "machine/link_timing.h"

#include <algorithm>

#include "base/check.h"

namespace syncopate {
namespace {

constexpr double kLongEnough_s = 0.4, kMost_s = 4;
// A long link's rate shows only over some round trips.
constexpr double kLongEnoughLatencies = 20;
// Larger than the burst that a shaped link lets through.
constexpr int64_t kFirstBytes = int64_t{1} << 18;
constexpr int64_t kMostBytes = int64_t{1} << 30;
constexpr double kLeastGrowth = 2, kMostGrowth = 16;
constexpr int64_t kSmaller = 4;  // by which factor the second size is

struct Exchanged {
  int64_t bytes = 0;
  std::vector<double> seconds;  // by rank
};

// Of the slowest exchange, less two latencies.
double slowest_s(const Exchanged& exchanged,
                 const std::vector<double>& latency_s) {
  double slowest = 0;
  for (size_t rank = 0; rank < latency_s.size(); ++rank)
    slowest = std::max(slowest, exchanged.seconds[rank] - 2 * latency_s[rank]);
  return slowest;
}

double mbit_s(int64_t bytes, double seconds) {
  return static_cast<double>(bytes) * 8e-6 / seconds;
}

}  // namespace

double message_s(double burst_s, double latency_s, int messages) {
  return std::max(0.0, burst_s - latency_s) / (messages - 1);
}

std::vector<double> mbit_s_of_all(const std::vector<double>& latency_s,
                                  const ExchangeOfAll& exchange) {
  const double longest_s = std::ranges::max(latency_s);
  const double enough_s =
      std::max(kLongEnough_s, kLongEnoughLatencies * longest_s);
  exchange(kFirstBytes / kSmaller);  // opens TCP's windows
  Exchanged large = {kFirstBytes, exchange(kFirstBytes)};
  for (;;) {
    CHECK(large.seconds.size() == latency_s.size());
    const double took_s = slowest_s(large, latency_s);
    if (took_s >= enough_s) break;
    const double wanted = took_s > 0 ? 1.25 * enough_s / took_s : kMostGrowth;
    const double growth = std::clamp(wanted, kLeastGrowth, kMostGrowth);
    const auto bytes =
        static_cast<int64_t>(growth * static_cast<double>(large.bytes));
    if (bytes > kMostBytes || growth * took_s > kMost_s) break;
    large = {bytes, exchange(bytes)};
  }
  const Exchanged small = {large.bytes / kSmaller,
                           exchange(large.bytes / kSmaller)};
  std::vector<double> rates;
  for (size_t rank = 0; rank < latency_s.size(); ++rank) {
    const double seconds = large.seconds[rank];
    const double more_s = seconds - small.seconds[rank];
    if (seconds == 0) {
      rates.push_back(0);
      continue;
    }
    // At least one latency is part of the time, so a lower rate is noise.
    const double least =
        mbit_s(large.bytes, std::max(seconds - latency_s[rank], seconds / 2));
    rates.push_back(
        more_s > 0 ? std::max(least, mbit_s(large.bytes - small.bytes, more_s))
                   : least);
  }
  return rates;
}

}  // namespace syncopate
