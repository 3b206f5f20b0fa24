// Schemes that average: by MPI ranks the same bits and bytes as by workers in
// one process.
// SPDX-License-Identifier: Apache-2.0
#include "support/mpi_main.h"
#include "unit/sync/toy_run.h"

namespace syncopate {
namespace {

using test::ToyRun;

void expect_as_in_one_process(const std::function<void(ToyRun&)>& change) {
  const auto world = mpi_session().make_world();
  ToyRun run;
  run.optimizer.momentum = 0.9;
  run.boundary_every = 4;
  run.restart_at = 8;
  change(run);
  const auto by_ranks = test::train_toy(*world, run);
  const auto by_workers = test::train_toy(world->size(), run);
  EXPECT_EQ(by_ranks.parameters, by_workers.parameters);
  EXPECT_EQ(by_ranks.buffers, by_workers.buffers);
  EXPECT_EQ(by_ranks.steps, by_workers.steps);
  EXPECT_EQ(by_ranks.payload_bytes, by_workers.payload_bytes);
  EXPECT_EQ(by_ranks.payload_messages, by_workers.payload_messages);
}

TEST(MpiAveraging, DsSync) {
  for (const Averaging place :
       {Averaging::kBeforeForward, Averaging::kAfterUpdate})
    for (const PhaseRestart restart :
         {PhaseRestart::kEpoch, PhaseRestart::kNever})
      expect_as_in_one_process([&](ToyRun& run) {
        run.sync.scheme = "ds_sync";
        run.sync.ds_sync.place = place;
        run.sync.ds_sync.restart = restart;
        run.sync.ds_sync.final_average = true;
      });
}

// A fast group may be phases ahead: thousands of small averages whose order
// nothing but their groups keeps.
TEST(MpiAveraging, DsSyncPhasesDoNotMeet) {
  expect_as_in_one_process([](ToyRun& run) {
    run.sync.scheme = "ds_sync";
    run.sync.ds_sync.restart = PhaseRestart::kNever;
    run.steps = 500;
    run.boundary_every = run.restart_at = 0;
  });
}

// The library's own sums: other bits, and a communicator a group.
TEST(MpiAveraging, DsSyncByTheLibrarysOwnCollective) {
  const auto world = mpi_session().make_world();
  ToyRun run;
  run.sync.scheme = "ds_sync";
  run.sync.collective = CollectiveAlgorithm::kNative;
  const auto native = test::train_toy(*world, run).parameters;
  run.sync.collective = CollectiveAlgorithm::kRing;
  const auto by_ring = test::train_toy(*world, run).parameters;
  for (size_t rank = 0; rank < native.size(); ++rank)
    for (size_t i = 0; i < native[rank].size(); ++i)
      EXPECT_NEAR(native[rank][i], by_ring[rank][i], 1e-6);
}

TEST(MpiAveraging, LocalSgd) {
  for (const OuterStep outer : {OuterStep::kAverage, OuterStep::kMomentum})
    expect_as_in_one_process([&](ToyRun& run) {
      run.sync.scheme = "local_sgd";
      run.sync.local_sgd.steps = 3;
      run.sync.local_sgd.outer = outer;
      run.sync.local_sgd.start = {2, false};
    });
}

TEST(MpiAveraging, EfSignSgd) {
  expect_as_in_one_process(
      [](ToyRun& run) { run.sync.scheme = "ef_sign_sgd"; });
}

TEST(MpiAveraging, Dgc) {
  for (const char* kind : {"top_k", "random_k"})
    expect_as_in_one_process([&](ToyRun& run) {
      run.sync.scheme = "dgc";
      run.sync.compress.kind = kind;
      run.sync.compress.biased = true;
      run.sync.dgc.warmup_ratios = {0.5};
    });
}

TEST(MpiAveraging, PowerSgd) {
  for (const bool is_warm : {false, true})
    expect_as_in_one_process([&](ToyRun& run) {
      run.sync.scheme = "power_sgd";
      run.sync.power_sgd.warm_start = is_warm;
      run.shapes = {Shape{12, 10}, Shape{5}, Shape{8, 3, 3, 3}};
    });
}

}  // namespace
}  // namespace syncopate
