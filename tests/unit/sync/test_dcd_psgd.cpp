// DCD-PSGD against its recursion, and that copies are copies.
#include "unit/sync/gossip_toy.h"

namespace syncopate {
namespace {

using test::Matrix;
using test::ToyRun;

TEST(DcdPsgd, FollowsTheRecursion) {
  for (const char* kind : {"identity", "top_k"}) {
    for (const auto& [topology, workers] : test::all_topologies()) {
      SCOPED_TRACE(std::string(kind) + ", " + topology.kind + " of " +
                   std::to_string(workers));
      ToyRun run = test::gossip_run("dcd_psgd");
      run.sync.topology = topology;
      run.sync.compress.kind = kind;
      const Matrix w = test::mixing_matrix(topology, workers);
      Matrix x = test::start_of(run, workers);
      for (int64_t step = 0; step < run.steps; ++step) {
        const Matrix half = test::sum(test::multiply(w, x), -run.optimizer.lr,
                                      test::gradients_at(run, step, x));
        x = test::sum(x, 1, test::compress(run, test::sum(half, -1, x)));
      }
      test::expect_near(test::train_toy(workers, run).parameters, x, 1e-5);
    }
  }
}

// What a worker has of a neighbour is the neighbour's model, to the bit.
TEST(DcdPsgd, CopiesAreTheNeighboursOwn) {
  std::vector<CompressOptions> kinds = test::contractive_compressors();
  kinds.push_back({.kind = "random_k", .ratio = 0.5});
  kinds.push_back({.kind = "qsgd", .bits = 4});
  for (const CompressOptions& compress : kinds) {
    for (const int workers : {2, 3, 6}) {
      SCOPED_TRACE(compress.kind);
      ToyRun run = test::gossip_run("dcd_psgd");
      run.sync.compress = compress;
      const auto states = test::states_after(workers, run);
      const Topology topology = make_topology(run.sync.topology, workers);
      for (int i = 0; i < workers; ++i)
        for (const auto& [j, weight] : topology.neighbours(i))
          EXPECT_EQ(states[i].ranges.at("xhat_of_" + std::to_string(j)),
                    states[j].ranges.at("parameters"));
    }
  }
}

TEST(DcdPsgd, GoesOnToTheBit) {
  for (const CompressOptions& compress : test::contractive_compressors()) {
    SCOPED_TRACE(compress.kind);
    ToyRun run = test::gossip_run("dcd_psgd");
    run.sync.compress = compress;
    run.step_s = {1, 1.5, 1, 2};
    test::expect_resumes(4, run, {.latency_s = 2.75, .bytes_per_s = 100});
  }
}

TEST(DcdPsgd, SendsAMessageToEachNeighbour) {
  for (const CompressOptions& compress : test::contractive_compressors()) {
    ToyRun run = test::gossip_run("dcd_psgd");
    run.sync.compress = compress;
    test::expect_bytes(run, test::toy_message_bytes(run));
  }
}

TEST(DcdPsgd, HidesMessagesUnderTheNextStep) {
  ToyRun run = test::gossip_run("dcd_psgd");
  EXPECT_EQ(test::train_toy(4, run, {.latency_s = 0.75}).clock,
            std::vector<double>(4, 5));
  EXPECT_EQ(test::train_toy(4, run, {.latency_s = 2.5}).clock,
            std::vector<double>(4, 1 + 4 * 2.5));
}

}  // namespace
}  // namespace syncopate
