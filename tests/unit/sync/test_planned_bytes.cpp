// The bytes that `validate` predicts per step are those that the counters
// count.
#include "sync/planned_bytes.h"

#include <algorithm>
#include <optional>

#include "unit/sync/toy_run.h"

namespace syncopate {
namespace {

using test::ToyRun;

// A run with the keys that a scheme needs besides its defaults.
ToyRun run_of(const std::string& scheme) {
  ToyRun run = test::run_of(scheme);
  run.shapes = {Shape{8, 12}, Shape{12}, Shape{5, 3, 3}};
  run.num_buffers = 0;
  run.steps = 24;  // whole rounds of every period
  run.steps_per_epoch = 24;
  if (scheme == "dgc") run.sync.compress.kind = "top_k";
  return run;
}

std::optional<double> planned_for(const ToyRun& run,
                                  int workers,
                                  bool has_servers_apart = false) {
  const test::ToyModel model = test::model_of(run);
  const int64_t buffers = run.shapes.empty() ? run.num_buffers : 0;
  return planned_bytes({.sync = run.sync,
                        .optimizer = run.optimizer,
                        .parameters = model.parameters(),
                        .workers = workers,
                        .total_steps = run.steps,
                        .has_servers_apart = has_servers_apart},
                       buffers);
}

double mean_sent(const test::ToyResult& result, const ToyRun& run) {
  return static_cast<double>(test::sum_of(result.payload_bytes)) /
         static_cast<double>(result.payload_bytes.size() * run.steps);
}

TEST(PlannedBytes, AreThoseThatAreCounted) {
  for (const SchemeInfo& info : scheme_table())
    for (const int workers : {1, 3, 4, 6, 9}) {
      if (info.keyword == "sync_switch") continue;  // has no figure
      const ToyRun run = run_of(info.keyword);
      const auto planned = planned_for(run, workers);
      EXPECT_EQ(planned.has_value(), info.keyword != "esync" || workers == 1);
      if (!planned) continue;
      const auto result = test::train_toy(workers, run);
      // The server's shards and a bucket's chunks have whole numbers of
      // elements: a difference of some elements per message.
      EXPECT_NEAR(*planned, mean_sent(result, run), 0.02 * *planned + 40)
          << info.keyword << ", " << workers << " workers";
    }
}

// All values travel to servers on machines of their own and back, also those of
// a single worker, which has none in a collective.
TEST(PlannedBytes, CountServersApart) {
  NetworkCost cost;
  cost.has_servers_apart = true;
  for (const char* scheme : {"asp", "ssp", "bsp", "local_sgd", "ds_sync"})
    for (const int workers : {1, 2, 4, 9}) {
      ToyRun run = run_of(scheme);
      run.sync.collective = CollectiveAlgorithm::kParameterServer;
      const double planned = planned_for(run, workers, true).value();
      const auto result = test::train_toy(workers, run, cost);
      EXPECT_NEAR(planned, mean_sent(result, run), 0.02 * planned + 40)
          << scheme << ", " << workers << " workers";
      if (run.sync.scheme == "asp") {
        EXPECT_GT(planned, 0) << workers << " workers";
      }
    }
}

// Statistics that the server keeps travel with the gradients, in fp32.
TEST(PlannedBytes, CountSharedStatistics) {
  for (const char* scheme : {"asp", "ssp"})
    for (const Wire wire : {Wire::kF32, Wire::kBf16})
      for (const int workers : {1, 2, 4}) {
        ToyRun run = run_of(scheme);
        run.sync.wire = wire;
        run.sync.asp.batchnorm = ServerStatistics::kShared;
        run.num_buffers = 16;
        run.shapes = {};
        run.tensors = {64};
        const auto planned = planned_for(run, workers);
        ASSERT_TRUE(planned);
        EXPECT_DOUBLE_EQ(*planned,
                         mean_sent(test::train_toy(workers, run), run))
            << scheme << " " << name_of(wire) << ", " << workers << " workers";
      }
}

// Of every collective, also those whose members send different amounts.
TEST(PlannedBytes, AreThoseOfTheCollective) {
  for (const auto& [algorithm, description] : collective_table())
    for (const int workers : {2, 3, 5, 6, 8}) {
      ToyRun run = run_of("bsp");
      run.sync.collective = algorithm;
      const auto planned = planned_for(run, workers);
      ASSERT_TRUE(planned);
      EXPECT_DOUBLE_EQ(*planned, mean_sent(test::train_toy(workers, run), run))
          << name_of(algorithm) << ", " << workers << " workers";
    }
}

// With workers that send different amounts.
TEST(PlannedBytes, AreMeansOverTheWorkers) {
  ToyRun one_server = run_of("asp");
  one_server.sync.asp.servers = 1;
  ToyRun margulis = run_of("d_psgd");
  margulis.sync.topology.kind = "margulis";
  for (const ToyRun& run : {one_server, margulis}) {
    const auto planned = planned_for(run, 16);
    const auto result = test::train_toy(16, run);
    EXPECT_GT(*std::max_element(result.payload_bytes.begin(),
                                result.payload_bytes.end()),
              1.1 * mean_sent(result, run) * run.steps);
    EXPECT_NEAR(*planned, mean_sent(result, run), 0.02 * *planned + 40)
        << run.sync.scheme;
  }
}

}  // namespace
}  // namespace syncopate
