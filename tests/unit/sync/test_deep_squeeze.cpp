// DeepSqueeze against its recursion, and what it promises.
#include "unit/sync/gossip_toy.h"

namespace syncopate {
namespace {

using test::Matrix;
using test::ToyRun;

ToyRun squeeze_run() {
  ToyRun run = test::gossip_run("deep_squeeze");
  run.sync.choco.gamma = 0.4;
  run.start = test::unlike_start;
  return run;
}

TEST(DeepSqueeze, FollowsTheRecursion) {
  for (const char* kind : {"identity", "top_k"}) {
    for (const auto& [topology, workers] : test::all_topologies()) {
      SCOPED_TRACE(std::string(kind) + ", " + topology.kind + " of " +
                   std::to_string(workers));
      ToyRun run = squeeze_run();
      run.sync.topology = topology;
      run.sync.compress.kind = kind;
      const Matrix w = test::mixing_matrix(topology, workers);
      Matrix x = test::start_of(run, workers);
      Matrix error = test::sum(x, -1, x);
      for (int64_t step = 0; step < run.steps; ++step) {
        x = test::sum(x, -run.optimizer.lr, test::gradients_at(run, step, x));
        const Matrix v = test::sum(error, 1, x);
        const Matrix q = test::compress(run, v);
        error = test::sum(v, -1, q);
        x = test::sum(x, run.sync.choco.gamma,
                      test::sum(test::multiply(w, q), -1, q));
      }
      test::expect_near(test::train_toy(workers, run).parameters, x, 1e-5);
      test::expect_near(
          test::range_of(test::states_after(workers, run), "error"), error,
          1e-5);
    }
  }
}

TEST(DeepSqueeze, KeepsTheMean) {
  for (const auto& [topology, workers] : test::all_topologies()) {
    for (const CompressOptions& compress : test::contractive_compressors()) {
      SCOPED_TRACE(compress.kind + ", " + topology.kind + " of " +
                   std::to_string(workers));
      ToyRun run = squeeze_run();
      run.sync.topology = topology;
      run.sync.compress = compress;
      run.optimizer.lr = 0;
      const auto result = test::train_toy(workers, run);
      test::expect_near({test::mean_of(result.parameters)},
                        {test::mean_of(test::start_of(run, workers))}, 1e-6);
    }
  }
}

TEST(DeepSqueeze, KeepsTheMeanAfterALongRun) {
  ToyRun run = squeeze_run();
  run.sync.choco.gamma = 0.1;
  run.num_buffers = 0;
  EXPECT_LT(test::mean_drift(run, 8, 3000), 3e-5);
}

TEST(DeepSqueeze, GoesOnToTheBit) {
  for (const CompressOptions& compress : test::contractive_compressors()) {
    SCOPED_TRACE(compress.kind);
    ToyRun run = squeeze_run();
    run.sync.compress = compress;
    run.step_s = {1, 1.5, 1, 2};
    test::expect_resumes(4, run, {.latency_s = 2.75, .bytes_per_s = 100});
  }
}

TEST(DeepSqueeze, SendsAMessageToEachNeighbour) {
  for (const CompressOptions& compress : test::contractive_compressors()) {
    ToyRun run = squeeze_run();
    run.sync.compress = compress;
    test::expect_bytes(run, test::toy_message_bytes(run));
  }
}

// Nothing hides what the next step needs.
TEST(DeepSqueeze, WaitsForItsMessages) {
  ToyRun run = squeeze_run();
  EXPECT_EQ(test::train_toy(4, run, {.latency_s = 0.75}).clock,
            std::vector<double>(4, 5 * 1.75));
}

TEST(DeepSqueeze, NamesWhatCannotRun) {
  const test::ToyModel model({1000}, 0);
  ToyRun run = squeeze_run();
  run.sync.compress = {.kind = "random_k", .ratio = 0.9};
  EXPECT_NE(scheme_obstacle({.sync = run.sync,
                             .optimizer = run.optimizer,
                             .parameters = model.parameters(),
                             .workers = 4,
                             .total_steps = 1})
                .find("deep_squeeze diverges"),
            std::string::npos);
}

}  // namespace
}  // namespace syncopate
