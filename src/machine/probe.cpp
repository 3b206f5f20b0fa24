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
#include "machine/link_timing.h"
#include "machine/measured_compute.h"
#include "machine/rank_pairs.h"

namespace syncopate {
namespace {

constexpr int kMostRounds = 63, kSampledRounds = 16;
constexpr int kMostAlone = 8, kAloneRepeats = 3;
// Together with the steps, about ten seconds, less than a minute.
constexpr double kBetweenFor_s = 24, kAloneFor_s = 8, kInsideFor_s = 10;
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
std::vector<std::string> network_lines(const NetworkOptions& network) {
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

  // One way, the median of some round trips, fewer of which are made over long
  // links. The lower rank says which one is the last.
  double latency_s() {
    constexpr int kLeast = 5, kMost = 31;
    constexpr double kFor_s = 0.2;
    std::vector<double> seconds;
    const Time began = endpoint_.now();
    for (bool is_last = false; !is_last;) {
      const int trip = static_cast<int>(seconds.size()) + 1;
      const Time begin = endpoint_.now();
      if (endpoint_.rank() < other_) {
        is_last = trip >= kMost || (trip >= kLeast && begin - began > kFor_s);
        out_[0] = is_last ? 1 : 0;
        send(8);
        receive(8);
      } else {
        receive(8);
        is_last = in_[0] != 0;
        send(8);
      }
      seconds.push_back(endpoint_.now() - begin);
    }
    return median(seconds) / 2;
  }

  // Seconds until kMessages small messages have arrived, in both directions at
  // once: the median of three times.
  static constexpr int kMessages = 64;
  double burst_s() {
    std::vector<double> seconds;
    for (int repeat = 0; repeat < 3; ++repeat) {
      std::vector<Request> requests;
      const Time begin = endpoint_.now();
      for (int i = 0; i < kMessages; ++i)
        requests.push_back(receiving(in_.data() + 8 * i, 8));
      for (int i = 0; i < kMessages; ++i) requests.push_back(sending(8));
      for (const Request& request : requests) endpoint_.wait(request);
      seconds.push_back(endpoint_.now() - begin);
    }
    return median(seconds);
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

// Measures exchanges of all pairs at the same time; `pair` is null if this rank
// sits out. Every pair exchanges as many bytes. Returns the megabits per second
// and direction of each rank. Collective.
std::vector<double> mbit_s_together(Endpoint& endpoint,
                                    Pair* pair,
                                    const std::vector<double>& latency_s) {
  return mbit_s_of_all(latency_s, [&](int64_t bytes) {
    barrier(endpoint, endpoint.world_group(), tags::kControl);
    return values_of_all(endpoint,
                         pair != nullptr ? pair->exchange_s(bytes) : 0);
  });
}

// The most seconds that have passed on any rank. Collective.
double passed_s(Endpoint& endpoint, Time began) {
  return std::ranges::max(values_of_all(endpoint, endpoint.now() - began));
}

// By rank: medians over its pairs, or 0 if it measured none.
struct LinkFigures {
  std::vector<double> latency_s, message_s, mbit_s;
};

using PartnerOf = std::function<int(int rank, int round)>;

// What a rank measures in one round. `other`: with which one; -1: it sits out.
struct RoundFigures {
  double latency_s = 0, message_s = 0, mbit_s = 0;
};

// Ranks of a host may share its link, so each gets the rate of the slowest of
// them. Collective.
RoundFigures measure_round(Endpoint& endpoint, int other, int per_host) {
  const int rank = endpoint.rank();
  std::optional<Pair> pair;
  if (other >= 0) pair.emplace(endpoint, other);
  barrier(endpoint, endpoint.world_group(), tags::kControl);
  const std::vector<double> latency_s =
      values_of_all(endpoint, pair ? pair->latency_s() : 0);
  const std::vector<double> rates =
      mbit_s_together(endpoint, pair ? &*pair : nullptr, latency_s);
  // Now that TCP's windows are open, so that messages need not wait for them.
  const std::vector<double> burst_s =
      values_of_all(endpoint, pair ? pair->burst_s() : 0);
  if (!pair) return {};
  RoundFigures found;
  found.latency_s = latency_s[rank];
  // The one that begins later waits less, by as much as the other waits more.
  found.message_s = message_s((burst_s[rank] + burst_s[other]) / 2,
                              latency_s[rank], Pair::kMessages);
  found.mbit_s = rates[rank];
  const auto first = rates.begin() + rank / per_host * per_host;
  std::for_each(first, first + per_host, [&](double rate) {
    if (rate > 0) found.mbit_s = std::min(found.mbit_s, rate);
  });
  return found;
}

// Measures the pairs of all rounds, or of a sample if there are many or the
// first one has taken long.
LinkFigures measure_rounds(Endpoint& endpoint,
                           int rounds,
                           int per_host,
                           double most_s,
                           const PartnerOf& partner_of) {
  constexpr int kLeastRounds = 2;   // in one of which every rank takes part
  constexpr int kWantedRounds = 3;  // if there are fewer, some are repeated
  std::vector<double> latency_s, message_s, rates;
  const Time began = endpoint.now();
  int taken =
      rounds > kMostRounds ? kSampledRounds : std::max(rounds, kWantedRounds);
  for (int i = 0; i < taken; ++i) {
    const int round = static_cast<int>(int64_t{i} * rounds / taken);
    const int other = partner_of(endpoint.rank(), round);
    const RoundFigures found = measure_round(endpoint, other, per_host);
    if (other >= 0) {
      latency_s.push_back(found.latency_s);
      message_s.push_back(found.message_s);
      rates.push_back(found.mbit_s);
    }
    if (i > 0) continue;
    const double affordable = most_s / passed_s(endpoint, began);
    if (affordable < taken)
      taken =
          std::max(std::min(taken, kLeastRounds), static_cast<int>(affordable));
  }
  return {values_of_all(endpoint, median(latency_s)),
          values_of_all(endpoint, median(message_s)),
          values_of_all(endpoint, median(rates))};
}

// Returns the median of the megabits per second of some pairs of the first
// round, measured one after the other. Of each host, only the first rank takes
// part.
double mbit_s_alone(Endpoint& endpoint,
                    const RankPairs& pairs,
                    const std::vector<double>& latency_s) {
  std::vector<double> alone;
  const Time began = endpoint.now();
  for (int rank = 0, tried = 0; rank < endpoint.size() && tried < kMostAlone;
       rank += pairs.per_host()) {
    const int other = pairs.between(rank, 0);
    if (other < rank) continue;
    ++tried;
    std::optional<Pair> pair;
    if (endpoint.rank() == rank) pair.emplace(endpoint, other);
    if (endpoint.rank() == other) pair.emplace(endpoint, rank);
    for (int repeat = 0; repeat < kAloneRepeats; ++repeat) {
      if (!alone.empty() && passed_s(endpoint, began) > kAloneFor_s) break;
      alone.push_back(
          mbit_s_together(endpoint, pair ? &*pair : nullptr, latency_s)[rank]);
    }
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
      endpoint, pairs.rounds_between(), pairs.per_host(), kBetweenFor_s,
      [&](int rank, int round) { return pairs.between(rank, round); });
  const double alone_mbit_s = mbit_s_alone(endpoint, pairs, between.latency_s);
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
      endpoint, pairs.rounds_inside(), 1, kInsideFor_s,
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
  cluster.lines.push_back(fmt::format(
      "steps      {} ms for forward and backward passes, by worker; standard "
      "deviation of a worker's {}%",
      text_of(scaled(measured.step_s, 1e3)),
      text_of(scaled(measured.spread, 1e2), 2)));
}

}  // namespace

std::vector<std::string> Cluster::input() const {
  std::vector<std::string> lines = {"[compute]"};
  for (const std::string& line : compute_lines(compute)) lines.push_back(line);
  lines.push_back("[network]");
  for (const std::string& line : network_lines(network)) lines.push_back(line);
  return lines;
}

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
  });
  return cluster;
}

}  // namespace syncopate
