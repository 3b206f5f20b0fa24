// Gossip by MPI ranks gives the bits of as many workers in one process.
// SPDX-License-Identifier: Apache-2.0
#include "support/mpi_main.h"
#include "unit/sync/gossip_toy.h"

namespace syncopate {
namespace {

using test::ToyRun;

void expect_same_as_in_one_process(const ToyRun& run) {
  const auto world = mpi_session().make_world();
  const test::ToyResult by_ranks = test::train_toy(*world, run);
  const test::ToyResult inproc = test::train_toy(world->size(), run);
  EXPECT_EQ(by_ranks.parameters, inproc.parameters);
  EXPECT_EQ(by_ranks.payload_bytes, inproc.payload_bytes);
  EXPECT_EQ(by_ranks.payload_messages, inproc.payload_messages);
}

ToyRun run_of(const std::string& scheme) {
  ToyRun run = test::gossip_run(scheme);
  run.steps = 12;
  run.boundary_every = 5;
  run.optimizer.momentum = 0.9;
  run.tensors = {7, 1, 4000};
  return run;
}

TEST(MpiGossip, Uncompressed) {
  for (const char* scheme : {"d_psgd", "sgp"}) {
    for (const Wire wire : {Wire::kF32, Wire::kBf16}) {
      SCOPED_TRACE(std::string(scheme) + " " + name_of(wire));
      ToyRun run = run_of(scheme);
      run.sync.wire = wire;
      run.start = test::unlike_start;
      expect_same_as_in_one_process(run);
    }
  }
}

TEST(MpiGossip, Compressed) {
  for (const char* scheme : {"choco", "dcd_psgd", "ecd_psgd", "deep_squeeze"}) {
    for (const CompressOptions& compress : test::contractive_compressors()) {
      SCOPED_TRACE(std::string(scheme) + " " + compress.kind);
      ToyRun run = run_of(scheme);
      run.sync.compress = compress;
      expect_same_as_in_one_process(run);
    }
  }
}

TEST(MpiGossip, OverEveryEdge) {
  for (const char* scheme : {"d_psgd", "choco"}) {
    ToyRun run = run_of(scheme);
    run.sync.topology.kind = "complete";
    run.start = test::unlike_start;
    expect_same_as_in_one_process(run);
  }
}

TEST(MpiGossip, GoesOnToTheBit) {
  for (const char* scheme :
       {"d_psgd", "choco", "dcd_psgd", "ecd_psgd", "deep_squeeze", "sgp"}) {
    SCOPED_TRACE(scheme);
    ToyRun run = run_of(scheme);
    const auto world = mpi_session().make_world();
    const test::ToyResult straight = test::train_toy(*world, run);
    run.restart_at = 5;
    EXPECT_EQ(test::train_toy(*world, run).parameters, straight.parameters);
  }
}

}  // namespace
}  // namespace syncopate
