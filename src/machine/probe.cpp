#include "machine/probe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "base/median.h"
#include "comm/collectives.h"
#include "comm/tags.h"
#include "machine/bench_step.h"
#include "machine/measured_compute.h"
#include "machine/rank_pairs.h"

namespace syncopate {
namespace {

constexpr int kMostRounds = 63, kSampledRounds = 16;
constexpr int kMostAlone = 8, kAloneRepeats = 3;
constexpr double kBandwidthFor_s = 0.4;  // of each pair
// Larger than the burst that a shaped link lets through.
constexpr int64_t kFirstBytes = int64_t{1} << 18;
constexpr int64_t kMostBytes = int64_t{1} << 30;
// Links that differ by less than this share are described as equal.
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

// "12.3", "12.3 to 45.6".
std::string text_of(const std::vector<double>& values, int digits = 4) {
  const auto text = [&](double value) {
    return fmt::format("{:.{}g}", value, digits);
  };
  const auto [least, most] = std::ranges::minmax(values);
  return least == most ? text(least) : text(least) + " to " + text(most);
}

// The lines of [network] that describe it.
std::vector<std::string> lines_of(const NetworkOptions& network) {
  std::vector<std::string> lines = {
      "mbit_s = " + list_of(network.mbit_s),
      "latency_us = " + list_of(network.latency_us),
      "message_us = " + list_of({network.message_us})};
  if (network.group == 0) return lines;
  lines.push_back(fmt::format("group = {}", network.group));
  lines.push_back("group_mbit_s = " + list_of({network.group_mbit_s}));
  lines.push_back("group_latency_us = " + list_of({network.group_latency_us}));
  if (network.uplink_mbit_s > 0)
    lines.push_back("uplink_mbit_s = " + list_of({network.uplink_mbit_s}));
  return lines;
}

// --- links -------------------------------------------------------------------

// Messages between this rank and one other, which makes the same calls.
class Pair {
 public:
  Pair(Endpoint& endpoint, int other)
      : endpoint_(endpoint),
        other_(other),
        out_(kPart),
        in_(kInFlight * kPart) {}

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

  // Seconds for as many bytes in each direction, both at once. Some parts are
  // in flight, as buckets are, so that the link need not wait for either rank.
  double exchange_s(int64_t bytes) {
    const Time begin = endpoint_.now();
    std::array<Request, kInFlight> sends, receives;
    const auto finish = [this](Request& request) {
      if (request != nullptr) endpoint_.wait(std::exchange(request, nullptr));
    };
    for (int64_t i = 0; i * kPart < bytes; ++i) {
      const int64_t part = std::min(bytes - i * kPart, kPart);
      const auto slot = static_cast<size_t>(i % kInFlight);
      finish(receives[slot]);
      finish(sends[slot]);
      receives[slot] = receiving(in_.data() + slot * kPart, part);
      sends[slot] = sending(part);
    }
    std::ranges::for_each(receives, finish);
    std::ranges::for_each(sends, finish);
    return endpoint_.now() - begin;
  }

 private:
  static constexpr int64_t kPart = int64_t{1} << 20;  // bytes
  static constexpr int64_t kInFlight = 2;             // parts
  Request sending(int64_t bytes) {
    return endpoint_.isend({out_.data(), bytes}, other_, tags::kCollective,
                           Traffic::kControl);
  }
  Request receiving(void* to, int64_t bytes) {
    return endpoint_.irecv({to, bytes}, other_, tags::kCollective);
  }
  void send(int64_t bytes) { endpoint_.wait(sending(bytes)); }
  void receive(int64_t bytes) { endpoint_.wait(receiving(in_.data(), bytes)); }

  Endpoint& endpoint_;
  const int other_;
  std::vector<char> out_, in_;
};

double mbit_s(int64_t bytes, double seconds) {
  return static_cast<double>(bytes) * 8e-6 / seconds;
}

// Measures exchanges of all pairs at the same time; `pair` is null if this rank
// sits out. Every pair exchanges as many bytes as the slowest one manages
// in kBandwidthFor_s. Returns the megabits per second and direction of each
// rank. Collective.
std::vector<double> mbit_s_together(Endpoint& endpoint, Pair* pair) {
  const auto seconds_for = [&](int64_t bytes) {
    barrier(endpoint, endpoint.world_group(), tags::kControl);
    return values_of_all(endpoint,
                         pair != nullptr ? pair->exchange_s(bytes) : 0);
  };
  const double slowest_s = std::ranges::max(seconds_for(kFirstBytes));
  const auto bytes = std::clamp(
      static_cast<int64_t>(kFirstBytes * kBandwidthFor_s / slowest_s),
      kFirstBytes, kMostBytes);
  std::vector<double> rates = seconds_for(bytes);
  for (double& value : rates)
    if (value > 0) value = mbit_s(bytes, value);
  return rates;
}

// By rank: medians over its pairs, or 0 if it measured none.
struct LinkFigures {
  std::vector<double> latency_s, message_s, mbit_s;
};

using PartnerOf = std::function<int(int rank, int round)>;

// Measures the pairs of all rounds, or of a sample if there are many. Ranks of
// a host may share its link, so each gets the rate of the slowest of them.
LinkFigures measure_rounds(Endpoint& endpoint,
                           int rounds,
                           int per_host,
                           const PartnerOf& partner_of) {
  const int rank = endpoint.rank();
  std::vector<double> latency_s, message_s, rates;
  const int taken = rounds > kMostRounds ? kSampledRounds : rounds;
  for (int i = 0; i < taken; ++i) {
    const int round = static_cast<int>(int64_t{i} * rounds / taken);
    const int other = partner_of(rank, round);
    std::optional<Pair> pair;
    if (other >= 0) pair.emplace(endpoint, other);
    barrier(endpoint, endpoint.world_group(), tags::kControl);
    if (pair) latency_s.push_back(pair->latency_s());
    barrier(endpoint, endpoint.world_group(), tags::kControl);
    if (pair) message_s.push_back(pair->message_s());
    const std::vector<double> of_all =
        mbit_s_together(endpoint, pair ? &*pair : nullptr);
    if (!pair) continue;
    const auto first = of_all.begin() + rank / per_host * per_host;
    double slowest = of_all[rank];
    std::for_each(first, first + per_host, [&](double rate) {
      if (rate > 0) slowest = std::min(slowest, rate);
    });
    rates.push_back(slowest);
  }
  return {values_of_all(endpoint, median(latency_s)),
          values_of_all(endpoint, median(message_s)),
          values_of_all(endpoint, median(rates))};
}

// Returns the median of the megabits per second of some pairs of the first
// round, measured one after the other. Of each host, only the first rank takes
// part.
double mbit_s_alone(Endpoint& endpoint, const RankPairs& pairs) {
  std::vector<double> alone;
  for (int rank = 0, tried = 0; rank < endpoint.size() && tried < kMostAlone;
       rank += pairs.per_host()) {
    const int other = pairs.between(rank, 0);
    if (other < rank) continue;
    ++tried;
    std::optional<Pair> pair;
    if (endpoint.rank() == rank) pair.emplace(endpoint, other);
    if (endpoint.rank() == other) pair.emplace(endpoint, rank);
    for (int repeat = 0; repeat < kAloneRepeats; ++repeat)
      alone.push_back(mbit_s_together(endpoint, pair ? &*pair : nullptr)[rank]);
  }
  return median(alone);
}

// Measures the links between hosts. If the ranks of a host together get less
// than each alone, they share an uplink.
void probe_links(Endpoint& endpoint, Cluster& cluster) {
  std::vector<int> hosts;
  for (int rank = 0; rank < endpoint.size(); ++rank)
    hosts.push_back(endpoint.host_of(rank));
  const RankPairs pairs(hosts);
  const LinkFigures between = measure_rounds(
      endpoint, pairs.rounds_between(), pairs.per_host(),
      [&](int rank, int round) { return pairs.between(rank, round); });
  const double alone_mbit_s = mbit_s_alone(endpoint, pairs);
  NetworkOptions& network = cluster.network;
  network.latency_us = by_worker(scaled(between.latency_s, 1e6), kSameLinks);
  network.mbit_s = by_worker(between.mbit_s, kSameLinks);
  network.message_us = median(between.message_s) * 1e6;
  cluster.lines.push_back(fmt::format(
      "links      {} Mbit/s and direction with all pairs at work, {:.4g} with "
      "one pair; latency {} us, {:.3g} us per message",
      text_of(network.mbit_s), alone_mbit_s, text_of(network.latency_us),
      network.message_us));
  const int per_host = pairs.per_host();
  if (per_host == 1) return;

  const LinkFigures inside = measure_rounds(
      endpoint, pairs.rounds_inside(), 1,
      [&](int rank, int round) { return pairs.inside(rank, round); });
  network.group = per_host;
  network.group_latency_us = median(inside.latency_s) * 1e6;
  network.group_mbit_s = median(inside.mbit_s);
  const double share_mbit_s = median(between.mbit_s);
  if (share_mbit_s < (1 - kSameLinks) * alone_mbit_s) {
    network.uplink_mbit_s = per_host * share_mbit_s;
    network.mbit_s = scaled(network.mbit_s, alone_mbit_s / share_mbit_s);
  }
  cluster.lines.push_back(fmt::format(
      "hosts      {} with {} workers each; inside a host {:.4g} Mbit/s and "
      "direction with all pairs at work, latency {:.4g} us; between hosts {}",
      endpoint.size() / per_host, per_host, network.group_mbit_s,
      network.group_latency_us,
      network.uplink_mbit_s > 0
          ? fmt::format("{:.4g} Mbit/s and direction, shared by a host's "
                        "workers",
                        network.uplink_mbit_s)
          : "every worker has a link of its own"));
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
  cluster.input = measured.lines();
  cluster.input.insert(cluster.input.begin(), "[compute]");
  cluster.lines.push_back(fmt::format(
      "steps      {} ms for forward and backward passes, by worker; standard "
      "deviation of a worker's {}%",
      text_of(scaled(measured.step_s, 1e3)),
      text_of(scaled(measured.spread, 1e2), 2)));
}

}  // namespace

Cluster probe_cluster(Session& session, Engine& engine) {
  const auto world = session.make_world(engine.workers, NetworkCost{});
  Cluster cluster;
  world->run([&](Endpoint& endpoint) {
    probe_steps(session, engine, endpoint, cluster);
    probe_links(endpoint, cluster);
    if (engine.device->kind() == DeviceKind::kCuda)
      cluster.lines.push_back(
          "note       the links were measured with MPI messages in host "
          "memory, not with NCCL, which sync.transport = auto may choose");
    cluster.input.push_back("[network]");
    for (const std::string& line : lines_of(cluster.network))
      cluster.input.push_back(line);
  });
  return cluster;
}

}  // namespace syncopate
