// Schemes whose steps do not depend on time give the same bits and bytes under
// MPI as in one process.
// SPDX-License-Identifier: Apache-2.0
#include "support/mpi_main.h"
#include "unit/sync/gossip_toy.h"

namespace syncopate {
namespace {

using test::ToyRun;

// The MPI run may include a resume; the run in one process has none.
void expect_as_in_one_process(ToyRun run) {
  const auto world = mpi_session().make_world();
  const auto by_ranks = test::train_toy(*world, run);
  run.restart_at = 0;
  const auto by_workers = test::train_toy(world->size(), run);
  EXPECT_EQ(by_ranks.parameters, by_workers.parameters);
  EXPECT_EQ(by_ranks.buffers, by_workers.buffers);
  EXPECT_EQ(by_ranks.steps, by_workers.steps);
  EXPECT_EQ(by_ranks.payload_bytes, by_workers.payload_bytes);
  EXPECT_EQ(by_ranks.payload_messages, by_workers.payload_messages);
}

// Small and large messages, with boundaries at irregular distances.
ToyRun gossip(ToyRun run) {
  run.steps = 12;
  run.boundary_every = run.restart_at = 5;
  run.optimizer.momentum = 0.9;
  run.tensors = {7, 1, 4000};
  return run;
}

TEST(MpiSchemes, Gossip) {
  for (const char* scheme :
       {"d_psgd", "sgp", "choco", "dcd_psgd", "ecd_psgd", "deep_squeeze"}) {
    for (const ToyRun& run : test::gossip_runs(scheme)) {
      SCOPED_TRACE(test::text_of(run, mpi_session().size()));
      expect_as_in_one_process(gossip(run));
    }
  }
}

TEST(MpiSchemes, GossipOverEveryEdge) {
  for (const char* scheme : {"d_psgd", "choco"}) {
    ToyRun run = gossip(test::gossip_run(scheme));
    run.sync.topology.kind = "complete";
    expect_as_in_one_process(run);
  }
}

ToyRun averaging(const std::string& scheme) {
  ToyRun run = test::run_of(scheme);
  run.optimizer.momentum = 0.9;
  run.boundary_every = 4;
  run.restart_at = 8;
  return run;
}

TEST(MpiSchemes, DsSync) {
  for (const Averaging place :
       {Averaging::kBeforeForward, Averaging::kAfterUpdate})
    for (const PhaseRestart restart :
         {PhaseRestart::kEpoch, PhaseRestart::kNever}) {
      ToyRun run = averaging("ds_sync");
      run.sync.ds_sync.place = place;
      run.sync.ds_sync.restart = restart;
      run.sync.ds_sync.final_average = true;
      expect_as_in_one_process(run);
    }
}

// A fast group may be several phases ahead: thousands of small averages that
// only their groups keep in order.
TEST(MpiSchemes, DsSyncPhasesDoNotMeet) {
  ToyRun run = averaging("ds_sync");
  run.sync.ds_sync.restart = PhaseRestart::kNever;
  run.steps = 500;
  run.boundary_every = run.restart_at = 0;
  expect_as_in_one_process(run);
}

// The library's own sums have different bits and need one communicator per
// group.
TEST(MpiSchemes, DsSyncByTheLibrarysOwnCollective) {
  const auto world = mpi_session().make_world();
  ToyRun run = test::run_of("ds_sync");
  run.sync.collective = CollectiveAlgorithm::kNative;
  const auto native = test::train_toy(*world, run).parameters;
  run.sync.collective = CollectiveAlgorithm::kRing;
  test::expect_near(native, test::train_toy(*world, run).parameters, 1e-6);
}

TEST(MpiSchemes, LocalSgd) {
  for (const OuterStep outer : {OuterStep::kAverage, OuterStep::kMomentum}) {
    ToyRun run = averaging("local_sgd");
    run.sync.local_sgd.steps = 3;
    run.sync.local_sgd.outer = outer;
    run.sync.local_sgd.start = {2, false};
    expect_as_in_one_process(run);
  }
}

TEST(MpiSchemes, EfSignSgd) {
  expect_as_in_one_process(averaging("ef_sign_sgd"));
}

TEST(MpiSchemes, Dgc) {
  for (const char* kind : {"top_k", "random_k"}) {
    ToyRun run = averaging("dgc");
    run.sync.compress.kind = kind;
    run.sync.compress.biased = true;
    run.sync.dgc.warmup_ratios = {0.5};
    expect_as_in_one_process(run);
  }
}

TEST(MpiSchemes, PowerSgd) {
  for (const bool is_warm : {false, true}) {
    ToyRun run = averaging("power_sgd");
    run.sync.power_sgd.warm_start = is_warm;
    run.shapes = {Shape{12, 10}, Shape{5}, Shape{8, 3, 3, 3}};
    expect_as_in_one_process(run);
  }
}

// Two tables, which share a bucket, and weights.
TEST(MpiSchemes, BspWithTables) {
  constexpr int64_t kRows = 5000, kElems = 10;
  ToyRun run = test::run_of("bsp");
  run.shapes = {Shape{kRows, kElems}, Shape{kRows, 1}, Shape{8, 12}};
  run.num_tables = 2;
  run.num_buffers = 0;
  run.optimizer.momentum = 0.9;
  run.gradient = [](int rank, int64_t step, std::span<const float> x,
                    std::span<float> gradient) {
    for (size_t i = 0; i < x.size(); ++i) {
      const int64_t row = static_cast<int64_t>(i) / kElems;
      if (row >= kRows || (row * 3 + rank + step) % 29 == 0)
        gradient[i] = x[i] + 0.1f * static_cast<float>(rank + 1);
    }
  };
  for (const Wire wire : {Wire::kF32, Wire::kBf16}) {
    run.sync.wire = wire;
    expect_as_in_one_process(run);
  }
}

}  // namespace
}  // namespace syncopate
