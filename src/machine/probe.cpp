#include "machine/probe.h"

#include <algorithm>
#include <cmath>

#include "comm/collectives.h"
#include "comm/tags.h"
#include "machine/bench_step.h"
#include "machine/measured_compute.h"
#include "machine/median.h"

namespace syncopate {
namespace {

int rounds_of(int ranks) {
  return ranks % 2 == 0 ? ranks - 1 : ranks;
}

// Returns the rank with which `rank` is paired in round `round`, from 0 to
// rounds_of(ranks) - 1, or -1 if it sits out. Over all rounds, every rank is
// paired once with every other one (the circle method).
int partner_of(int rank, int round, int ranks) {
  const int rounds = rounds_of(ranks);
  const bool is_even = ranks % 2 == 0;
  // The ranks 0 to rounds - 1 meet where the sum of two is the round; the one
  // that would meet itself meets the last rank, if there is one more.
  if (is_even && rank == rounds)  // 2 x = round, modulo an odd number
    return static_cast<int>(int64_t{round} * (rounds + 1) / 2 % rounds);
  const int other = ((round - rank) % rounds + rounds) % rounds;
  if (other != rank) return other;
  return is_even ? rounds : -1;
}

constexpr int kMostRounds = 63, kSampledRounds = 16, kMostAlone = 8;
constexpr double kBandwidthFor_s = 0.1;  // of each pair
// A difference between links that is worth describing.
constexpr double kSameLinks = 0.2;

// One value for all workers if they are about the same.
std::vector<double> by_worker(std::vector<double> values, double same) {
  if (relative_range(values) < same) return {median(values)};
  return values;
}

std::vector<double> scaled(std::vector<double> values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}

std::string text_of(const std::vector<double>& values) {
  if (values.size() == 1) return fmt::format("{:.4g}", values[0]);
  const auto [least, most] = std::ranges::minmax(values);
  return fmt::format("{:.4g} to {:.4g}", least, most);
}

// --- links -------------------------------------------------------------------

// Messages between this rank and one other, which makes the same calls.
class Pair {
 public:
  Pair(Endpoint& endpoint, int other)
      : endpoint_(endpoint), other_(other), out_(1 << 20), in_(out_.size()) {}

  // One way, the median of some round trips.
  double latency_s() {
    std::vector<double> seconds;
    for (int i = 0; i < 31; ++i) {
      const Time begin = endpoint_.now();
      if (endpoint_.rank() < other_) send(8);
      receive(8);
      if (endpoint_.rank() > other_) send(8);
      seconds.push_back(endpoint_.now() - begin);
    }
    return median(seconds) / 2;
  }

  // Seconds per small message of many, in both directions at once.
  double message_s() {
    constexpr int kMessages = 64;
    std::vector<Request> requests;
    const Time begin = endpoint_.now();
    for (int i = 0; i < kMessages; ++i)
      requests.push_back(receiving(in_.data() + 8 * i, 8));
    for (int i = 0; i < kMessages; ++i) requests.push_back(sending(8));
    for (const Request& request : requests) endpoint_.wait(request);
    return (endpoint_.now() - begin) / kMessages;
  }

  // Megabits per second and direction, in both directions at once. Both ranks
  // time the first exchange and agree on the number of the others.
  double mbit_s() {
    double repeats = std::ceil(kBandwidthFor_s / exchange(1));
    double others = 0;
    const Request request = receiving(&others, 8);
    endpoint_.wait(endpoint_.isend({&repeats, 8}, other_, tags::kCollective,
                                   Traffic::kControl));
    endpoint_.wait(request);
    repeats = std::clamp(std::max(repeats, others), 1.0, 1000.0);
    return static_cast<double>(out_.size()) * 8e-6 * repeats /
           exchange(static_cast<int>(repeats));
  }

 private:
  Request sending(int64_t bytes) {
    return endpoint_.isend({out_.data(), bytes}, other_, tags::kCollective,
                           Traffic::kControl);
  }
  Request receiving(void* to, int64_t bytes) {
    return endpoint_.irecv({to, bytes}, other_, tags::kCollective);
  }
  void send(int64_t bytes) { endpoint_.wait(sending(bytes)); }
  void receive(int64_t bytes) { endpoint_.wait(receiving(in_.data(), bytes)); }
  double exchange(int times) {
    const Time begin = endpoint_.now();
    for (int i = 0; i < times; ++i) {
      const auto bytes = static_cast<int64_t>(out_.size());
      const Request request = receiving(in_.data(), bytes);
      send(bytes);
      endpoint_.wait(request);
    }
    return endpoint_.now() - begin;
  }

  Endpoint& endpoint_;
  const int other_;
  std::vector<char> out_, in_;
};

void probe_links(Endpoint& endpoint, Cluster& cluster) {
  const int ranks = endpoint.size(), rounds = rounds_of(ranks);
  const int taken = rounds > kMostRounds ? kSampledRounds : rounds;
  std::vector<double> latency_s, message_s, together, alone;
  for (int i = 0; i < taken; ++i) {
    const int round = static_cast<int>(int64_t{i} * rounds / taken);
    barrier(endpoint, endpoint.world_group(), tags::kControl);
    const int other = partner_of(endpoint.rank(), round, ranks);
    if (other < 0) continue;
    Pair pair(endpoint, other);
    latency_s.push_back(pair.latency_s());
    message_s.push_back(pair.message_s());
    together.push_back(pair.mbit_s());
  }
  // The pairs of the first round once more, one after the other.
  int tried = 0;
  for (int rank = 0; rank < ranks && tried < kMostAlone; ++rank) {
    const int other = partner_of(rank, 0, ranks);
    if (other < rank) continue;
    ++tried;
    barrier(endpoint, endpoint.world_group(), tags::kControl);
    if (endpoint.rank() == rank || endpoint.rank() == other)
      alone.push_back(
          Pair(endpoint, endpoint.rank() == rank ? other : rank).mbit_s());
  }
  const auto of_all = [&](const std::vector<double>& mine) {
    return values_of_all(endpoint, median(mine));
  };
  const std::vector<double> latency_us = scaled(of_all(latency_s), 1e6);
  const std::vector<double> mbit_s = of_all(together);
  std::vector<double> alone_mbit_s = of_all(alone);
  std::erase(alone_mbit_s, 0);
  NetworkOptions& network = cluster.network;
  network.latency_us = by_worker(latency_us, kSameLinks);
  network.mbit_s = by_worker(mbit_s, kSameLinks);
  network.message_us = median(of_all(message_s)) * 1e6;
  cluster.lines.push_back(fmt::format(
      "links      {} Mbit/s and direction with all pairs at work, {:.4g} with "
      "one pair; latency {} us, {:.3g} us per message",
      text_of(network.mbit_s), median(alone_mbit_s),
      text_of(network.latency_us), network.message_us));
}

// --- steps -------------------------------------------------------------------

void probe_steps(Session& session,
                 Engine& engine,
                 Endpoint& endpoint,
                 Cluster& cluster) {
  const StepTimes times =
      StepBench(session, engine, endpoint, nullptr,
                {.warmup = 2, .least = 3, .most = 200, .least_s = 8})
          .run();
  const MeasuredCompute measured = measured_compute(endpoint, times);
  cluster.compute = measured.options;
  cluster.lines.push_back(fmt::format(
      "steps      {} ms for forward and backward passes, by worker; standard "
      "deviation {:.1f}%",
      text_of(scaled(measured.step_s, 1e3)), 100 * measured.spread));
}

}  // namespace

Cluster probe_cluster(Session& session, Engine& engine) {
  const auto world = session.make_world(engine.workers, NetworkCost{});
  Cluster cluster;
  world->run([&](Endpoint& endpoint) {
    probe_steps(session, engine, endpoint, cluster);
    probe_links(endpoint, cluster);
  });
  return cluster;
}

}  // namespace syncopate
