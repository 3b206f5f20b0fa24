// Sums of workers that share a device are those through host memory: values to
// the bit, clocks, waiting times and traffic. Runs on the CPU and on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "sync/shared_sums.h"

#include <gtest/gtest.h>

#include "comm/tags.h"
#include "comm/world.h"
#include "support/test_device.h"
#include "sync/reducer.h"
#include "unit/sync/outcome.h"
#include "unit/sync/toy_model.h"

namespace syncopate {
namespace {

constexpr int64_t kFirst = 7, kElems = 1003;  // of a bucket behind others
constexpr int64_t kRest = 5;                  // fewer than some groups' workers

using test::Outcome;

enum class Over : uint8_t { kAll, kEvenAndOdd };

// Two rounds of two buckets by workers that come at different times.
std::vector<Outcome> sums(int workers,
                          Over over,
                          Wire wire,
                          CollectiveAlgorithm collective,
                          bool has_servers_apart,
                          SharedSums* shared) {
  test::TestContext test{1};
  std::vector<Outcome> outcomes(workers);
  NetworkCost cost{1e-3, 1e6};
  cost.has_servers_apart = has_servers_apart;
  make_inproc_world(workers, cost)->run([&](Endpoint& endpoint) {
    const int rank = endpoint.rank();
    const test::ToyModel model({kFirst + kElems + kRest}, 0);
    Replica replica(test.context, model, {});
    SyncOptions sync;
    sync.collective = collective;
    const OptimizerOptions optimizer;
    const Schedule schedule({}, 0.1, 1, 1);
    const auto reducer = make_reducer({.endpoint = endpoint,
                                       .context = test.context,
                                       .replica = replica,
                                       .model = model,
                                       .sync = sync,
                                       .optimizer = optimizer,
                                       .schedule = schedule,
                                       .shared_sums = shared});
    std::vector<int> members;
    for (int r = over == Over::kAll ? 0 : rank % 2; r < workers;
         r += over == Over::kAll ? 1 : 2)
      members.push_back(r);
    reducer->over(endpoint.group(members));
    Outcome& mine = outcomes[rank];
    std::vector<float> values(kFirst + kElems + kRest);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] =
          1 / (1.0f + static_cast<float>(rank) + 3 * static_cast<float>(i));
    replica.gradients.assign(values);
    for (int round = 0; round < 2; ++round) {
      endpoint.advance(0.01 * rank);
      const std::span<float> range = replica.gradients;
      reducer->start({"a", range, kFirst, kElems, wire, tags::kBucket});
      endpoint.advance(0.001);
      reducer->start(
          {"b", range, kFirst + kElems, kRest, wire, tags::kBucket + 1});
      reducer->close();
      mine.times.add(reducer->finish());
    }
    OnHost summed(test.device, *test.stream, replica.gradients.span());
    mine.values.emplace_back(summed.values().begin(), summed.values().end());
    EXPECT_EQ(mine.values[0][0], values[0]) << "in no bucket";
    mine.end(endpoint);
  });
  return outcomes;
}

TEST(SharedSums, AreThoseThroughHostMemory) {
  for (const int workers : {1, 2, 3, 4, 7})
    for (const Over over : {Over::kAll, Over::kEvenAndOdd})
      for (const Wire wire : {Wire::kF32, Wire::kBf16})
        for (const auto collective :
             {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kButterfly,
              CollectiveAlgorithm::kParameterServer,
              CollectiveAlgorithm::kNative}) {
          if (collective == CollectiveAlgorithm::kNative && wire != Wire::kF32)
            continue;
          for (const bool is_apart : {false, true}) {
            SCOPED_TRACE(std::to_string(workers) + " workers, " +
                         name_of(wire) + ", " + name_of(collective) +
                         (is_apart ? ", servers apart" : ""));
            SharedSums shared;
            const auto on_device =
                sums(workers, over, wire, collective, is_apart, &shared);
            const auto through_host =
                sums(workers, over, wire, collective, is_apart, nullptr);
            for (int rank = 0; rank < workers; ++rank)
              expect_same(on_device[rank], through_host[rank]);
            const bool has_waited = through_host[0].clock > 0.01;
            EXPECT_EQ(has_waited, workers > (over == Over::kAll ? 1 : 2));
          }
        }
}

}  // namespace
}  // namespace syncopate
