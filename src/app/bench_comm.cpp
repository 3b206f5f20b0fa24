#include "app/bench_comm.h"

#include <algorithm>
#include <functional>

#include "base/median.h"
#include "base/text.h"
#include "comm/tags.h"

namespace syncopate {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 40;

// Returns the slowest worker's seconds, as the median over the repeats; the
// same on every worker.
double seconds_of(Endpoint& endpoint,
                  int64_t repeats,
                  const std::function<void()>& body) {
  const Group all = endpoint.world_group();
  std::vector<double> seconds;
  for (int64_t i = 0; i < repeats + 1; ++i) {
    barrier(endpoint, all, tags::kControl);
    const Time begin = endpoint.now();
    body();
    double taken = endpoint.now() - begin;
    agree(endpoint, all, {&taken, 1}, Combine::kMax, tags::kControl);
    if (i > 0) seconds.push_back(taken);  // the first makes connections
  }
  return median(seconds);
}

// Returns the first rank on another host than rank 0, or 1 if there is none.
int distant_rank(const Endpoint& endpoint) {
  for (int rank = 1; rank < endpoint.size(); ++rank)
    if (endpoint.host_of(rank) != endpoint.host_of(0)) return rank;
  return 1;
}

// Between rank 0 and `other`.
void there_and_back(Endpoint& endpoint, int other, Bytes data) {
  const int rank = endpoint.rank();
  if (rank != 0 && rank != other) return;
  const int peer = rank == 0 ? other : 0;
  const auto send = [&] {
    endpoint.wait(endpoint.isend({data.data, data.bytes}, peer,
                                 tags::kCollective, Traffic::kPayload));
  };
  if (rank == 0) send();
  endpoint.wait(endpoint.irecv(data, peer, tags::kCollective));
  if (rank != 0) send();
}

}  // namespace

CommBench comm_bench(const CommandLine& line) {
  CommBench bench;
  const auto given = [&](const char* name) -> std::vector<std::string> {
    const auto found = line.options.find(name);
    if (found == line.options.end()) return {};
    return split(found->second, ',');
  };
  if (const auto words = given("bytes"); !words.empty()) {
    bench.bytes.clear();
    for (const std::string& word : words) {
      bench.bytes.push_back(line.parse_whole("bytes", word, 1, kMostBytes));
      if (bench.bytes.back() % 4 != 0)
        fail(ExitCode::kUsage, "bench: --bytes={}: values have 4 bytes each",
             word);
    }
  }
  const auto by = given("by");
  for (const std::string& word :
       by.empty() ? all_names<CollectiveAlgorithm>() : by) {
    const auto named = value_named<CollectiveAlgorithm>(word);
    if (!named)
      fail(ExitCode::kUsage,
           "bench: --by={}: no such collective; there are: {}", word,
           names_of(CollectiveAlgorithm{}));
    bench.collectives.push_back(*named);
  }
  if (line.options.contains("repeats"))
    bench.repeats = line.whole_number("repeats", 1, 1'000'000, 1);
  return bench;
}

void run_comm_bench(Session& session,
                    const Engine& engine,
                    const CommBench& bench) {
  if (engine.workers == 1)
    throw AgreedError(Error(ExitCode::kUsage,
                            "bench comm: needs at least two workers: "
                            "mpiexec -n N or, on the virtual network of "
                            "[network], run.workers = N"));
  NetworkCost cost;
  if (session.size() == 1) {
    cost = network_cost_of(engine);
    if (!cost.takes_time())
      throw AgreedError(Error(
          ExitCode::kUsage,
          "bench comm: messages take no time between workers of one process "
          "without network.mbit_s or another cost in [network]; to measure a "
          "real network, start it by mpiexec -n N"));
  }
  const auto world = session.make_world(engine.workers, cost);
  Log& log = session.log();
  log.line("{}", world->description());
  log.line("{:>12} {:>16} {:>12} {:>14}", "bytes", "by", "microseconds",
           "bus MB/s");
  world->run([&](Endpoint& endpoint) {
    const Group all = endpoint.world_group();
    const auto row = [&](int64_t bytes, const std::string& by, double carried,
                         double seconds) {
      if (endpoint.rank() == 0)
        log.line("{:>12} {:>16} {:>12.1f} {:>14}", bytes, by, 1e6 * seconds,
                 seconds > 0 ? fmt::format("{:.1f}", carried / seconds * 1e-6)
                             : "-");
    };
    const int distant = distant_rank(endpoint);
    for (const int64_t bytes : bench.bytes) {
      std::vector<float> values(static_cast<size_t>(bytes / 4), 1.0f);
      const int64_t repeats =
          bench.repeats.value_or(bytes > (1 << 20) ? 7 : 51);
      const auto carried = static_cast<double>(bytes);
      row(bytes, "point_to_point", carried,
          seconds_of(endpoint, repeats, [&] {
            there_and_back(endpoint, distant, {values.data(), bytes});
          }) / 2);
      const double share = 2.0 * (all.size() - 1) / all.size();
      for (const CollectiveAlgorithm algorithm : bench.collectives)
        row(bytes, name_of(algorithm), share * carried,
            seconds_of(endpoint, repeats, [&] {
              all_reduce_sum(endpoint, all, values, algorithm, Wire::kF32,
                             tags::kCollective, Traffic::kPayload);
            }));
    }
  });
}

}  // namespace syncopate
