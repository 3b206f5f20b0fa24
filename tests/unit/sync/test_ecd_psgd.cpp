// ECD-PSGD against its recursion, and that copies are copies.
#include "unit/sync/gossip_toy.h"

namespace syncopate {
namespace {

using test::Matrix;
using test::ToyRun;

// xhat where q has coordinates: (1 - share) xhat + share q.
Matrix blend(const ToyRun& run, Matrix xhat, double share, const Matrix& q) {
  const bool is_sparse = run.sync.compress.kind == "top_k";
  for (size_t i = 0; i < q.size(); ++i)
    for (size_t e = 0; e < q[i].size(); ++e)
      if (!is_sparse || q[i][e] != 0)
        xhat[i][e] = (1 - share) * xhat[i][e] + share * q[i][e];
  return xhat;
}

TEST(EcdPsgd, FollowsTheRecursion) {
  for (const char* kind : {"identity", "top_k"}) {
    for (const auto& [topology, workers] : test::all_topologies()) {
      SCOPED_TRACE(std::string(kind) + ", " + topology.kind + " of " +
                   std::to_string(workers));
      ToyRun run = test::gossip_run("ecd_psgd");
      run.sync.topology = topology;
      run.sync.compress.kind = kind;
      const Matrix w = test::mixing_matrix(topology, workers);
      Matrix x = test::start_of(run, workers), xhat = x;
      for (int64_t step = 0; step < run.steps; ++step) {
        const double half_t = static_cast<double>(step + 1) / 2;
        const Matrix next =
            test::sum(test::multiply(w, xhat), -run.optimizer.lr,
                      test::gradients_at(run, step, x));
        const Matrix z = test::sum(test::sum(x, -half_t, x), half_t, next);
        xhat = blend(run, xhat, 1 / half_t, test::compress(run, z));
        x = next;
      }
      test::expect_near(test::train_toy(workers, run).parameters, x, 1e-5);
      test::expect_near(
          test::range_of(test::states_after(workers, run), "xhat"), xhat, 1e-5);
    }
  }
}

// Uncompressed, xhat is x: D-PSGD that combines, then adapts.
TEST(EcdPsgd, UncompressedNeedsNoExtrapolation) {
  ToyRun run = test::gossip_run("ecd_psgd");
  run.sync.compress.kind = "identity";
  run.steps = 20;
  const auto states = test::states_after(4, run);
  test::expect_near(test::range_of(states, "xhat"),
                    test::range_of(states, "parameters"), 1e-5);
}

// What a worker has of a neighbour is what that has of itself, to the bit.
TEST(EcdPsgd, CopiesAreTheNeighboursOwn) {
  std::vector<CompressOptions> kinds = test::contractive_compressors();
  kinds.push_back({.kind = "random_k", .ratio = 0.5});
  kinds.push_back({.kind = "qsgd", .bits = 4});
  for (const CompressOptions& compress : kinds) {
    for (const int workers : {2, 3, 6}) {
      SCOPED_TRACE(compress.kind);
      ToyRun run = test::gossip_run("ecd_psgd");
      run.sync.compress = compress;
      const auto states = test::states_after(workers, run);
      const Topology topology = make_topology(run.sync.topology, workers);
      for (int i = 0; i < workers; ++i)
        for (const auto& [j, weight] : topology.neighbours(i))
          EXPECT_EQ(states[i].ranges.at("xhat_of_" + std::to_string(j)),
                    states[j].ranges.at("xhat"));
    }
  }
}

TEST(EcdPsgd, GoesOnToTheBit) {
  for (const CompressOptions& compress : test::contractive_compressors()) {
    SCOPED_TRACE(compress.kind);
    ToyRun run = test::gossip_run("ecd_psgd");
    run.sync.compress = compress;
    run.step_s = {1, 1.5, 1, 2};
    test::expect_resumes(4, run, {.latency_s = 2.75, .bytes_per_s = 100});
  }
}

TEST(EcdPsgd, SendsAMessageToEachNeighbour) {
  for (const CompressOptions& compress : test::contractive_compressors()) {
    ToyRun run = test::gossip_run("ecd_psgd");
    run.sync.compress = compress;
    test::expect_bytes(run, test::toy_message_bytes(run));
  }
}

TEST(EcdPsgd, HidesMessagesUnderTheNextStep) {
  ToyRun run = test::gossip_run("ecd_psgd");
  EXPECT_EQ(test::train_toy(4, run, {.latency_s = 0.75}).clock,
            std::vector<double>(4, 5));
  EXPECT_EQ(test::train_toy(4, run, {.latency_s = 2.5}).clock,
            std::vector<double>(4, 1 + 4 * 2.5));
}

}  // namespace
}  // namespace syncopate
