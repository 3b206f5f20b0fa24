// Properties of CHOCO-SGD besides its recursion (test_gossip.cpp).
#include "unit/sync/gossip_toy.h"

namespace syncopate {
namespace {

using test::Matrix;
using test::ToyRun;

ToyRun choco_run() {
  return test::gossip_run("choco");
}

// x after r rounds is W^(r - 1) x_0.
TEST(Choco, UncompressedIsMixingDelayedByOneStep) {
  for (const int workers : {2, 3, 4, 8, 9}) {
    ToyRun run = choco_run();
    run.sync.compress.kind = "identity";
    run.sync.choco.gamma = 1;
    run.optimizer.lr = 0;
    const Matrix w = test::mixing_matrix(run.sync.topology, workers);
    Matrix x = test::start_of(run, workers);
    for (run.steps = 1; run.steps < 6; ++run.steps) {
      test::expect_near(test::train_toy(workers, run).parameters, x, 1e-5);
      x = test::multiply(w, x);
    }
  }
}

// Without gradients the workers' disagreement shrinks by a constant factor per
// round while fp32 resolves it: equally much in both halves of the run.
TEST(Choco, AgreesLinearly) {
  // A suitable gamma and a number of rounds for each compressor.
  const std::pair<double, int64_t> pace[] = {
      {0.9, 10}, {0.3, 40}, {0.2, 60}, {0.1, 120}, {0.5, 30}};
  size_t which = 0;
  for (const CompressOptions& compress : test::contractive_compressors()) {
    SCOPED_TRACE(compress.kind);
    ToyRun run = choco_run();
    run.sync.compress = compress;
    run.sync.choco.gamma = pace[which].first;
    run.optimizer.lr = 0;
    run.tensors = {100, 60, 1};
    const int64_t rounds = pace[which++].second;
    const auto error_after = [&](int64_t steps) {
      run.steps = steps;
      return test::consensus_error(test::train_toy(8, run).parameters);
    };
    const double first = error_after(rounds) / error_after(2 * rounds);
    const double second = error_after(2 * rounds) / error_after(3 * rounds);
    EXPECT_GT(first, 4);
    EXPECT_GT(second, 4);
    EXPECT_LT(std::abs(std::log(first / second)), 0.5 * std::log(first));
  }
}

// c_i = sum_j w_ij (xhat_j - xhat_i) after every round.
TEST(Choco, KnowsHowItsNeighboursPublicCopiesDiffer) {
  for (const CompressOptions& compress : test::contractive_compressors()) {
    for (const char* kind : {"ring", "complete", "hierarchical"}) {
      SCOPED_TRACE(compress.kind + ", " + kind);
      ToyRun run = choco_run();
      run.sync.topology.kind = kind;
      run.sync.compress = compress;
      const Matrix w = test::mixing_matrix(run.sync.topology, 6);
      for (run.steps = 1; run.steps < 8; ++run.steps) {
        const auto states = test::states_after(6, run);
        const Matrix xhat = test::range_of(states, "xhat");
        test::expect_near(test::range_of(states, "c"),
                          test::sum(test::multiply(w, xhat), -1, xhat), 1e-5);
      }
    }
  }
}

// Holds exactly while residuals stay below 0.5.
TEST(Choco, ResidualsAddUpToZero) {
  for (const CompressOptions& compress : test::contractive_compressors())
    for (const auto& [topology, workers] : test::all_topologies()) {
      if (workers > 9) continue;
      SCOPED_TRACE(compress.kind + ", " + topology.kind + " of " +
                   std::to_string(workers));
      ToyRun run = choco_run();
      run.sync.topology = topology;
      run.sync.compress = compress;
      run.start = [](int rank, int64_t i) {
        return 0.1f * test::unlike_start(rank, i);
      };
      run.optimizer.lr = 0.01;
      run.steps = 20;
      run.sync.choco.gamma = 0.1;  // at which random_k contracts too
      const Matrix c = test::range_of(test::states_after(workers, run), "c");
      for (size_t e = 0; e < c[0].size(); ++e) {
        double sum = 0;
        for (const test::Vector& row : c) {
          sum += row[e];
          EXPECT_LT(std::abs(row[e]), 0.5);
        }
        EXPECT_EQ(sum, 0);
      }
    }
}

// A step of 1 s hides all but 1.5 s of a round of 2.5 s.
TEST(Choco, TellsWhatTheNextStepHides) {
  ToyRun run = choco_run();
  run.steps = 8;
  double exposed = 0, overlapped = 0;
  run.after_step = [&](int rank, const StepPlan&, Scheme& scheme, Replica&) {
    const SyncTimes times = scheme.take_times();
    if (rank > 0) return;
    exposed += times.exposed_s;
    overlapped += times.overlapped_s;
  };
  test::train_toy(4, run, {.latency_s = 2.5});
  EXPECT_EQ(exposed, 7 * 1.5);
  EXPECT_EQ(overlapped, 7 * 1.0);
}

// Every worker draws its own coordinates, and new ones in every round.
TEST(Choco, DrawsDifferByWorkerAndRound) {
  ToyRun run = choco_run();
  run.sync.compress = {.kind = "random_k", .ratio = 0.9, .biased = true};
  run.tensors = {1000};
  run.optimizer.lr = 0;
  const auto known_after = [&](int64_t steps) {
    run.steps = steps;
    Matrix known = test::range_of(test::states_after(3, run), "xhat");
    for (auto& row : known)
      for (double& value : row) value = value != 0 ? 1 : 0;
    return known;
  };
  const Matrix first = known_after(1), second = known_after(2);
  EXPECT_NE(first[0], first[1]);
  EXPECT_NE(first[1], first[2]);
  EXPECT_NE(first[0], second[0]);
}

// Both in the middle of a segment and at its end.
TEST(Choco, TellsHowFarPublicCopiesAreOff) {
  ToyRun run = choco_run();
  std::vector<double> told, expected;
  run.after_step = [&](int rank, const StepPlan& plan, Scheme& scheme,
                       Replica&) {
    if (rank == 0 && plan.step == 4) told.push_back(scheme.take_series().at(0));
  };
  run.at_boundary = [&](int rank, int64_t, Scheme& scheme, Replica&) {
    if (rank != 0) return;
    told.push_back(scheme.take_series().at(0));
    const test::CapturedState state(scheme);
    const test::Vector x = state["parameters"], xhat = state["xhat"];
    ASSERT_EQ(xhat.size(), x.size());
    double sum = 0;
    for (size_t e = 0; e < x.size(); ++e) sum += std::pow(x[e] - xhat[e], 2);
    expected.assign(2, std::sqrt(sum));
    EXPECT_EQ(scheme.series().size(), 1u);
  };
  test::train_toy(3, run);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0], told[1]);
  EXPECT_GT(told[0], 0.01);
  EXPECT_NEAR(told[0], expected[0], 1e-5);
}

TEST(Choco, NamesWhatCannotRun) {
  ToyRun run = choco_run();
  run.tensors = {1000};
  const auto obstacle = [&] { return test::obstacle_of(run, 4); };
  EXPECT_EQ(obstacle(), "");
  run.sync.compress = {.kind = "random_k", .ratio = 0.9};
  EXPECT_EQ(
      obstacle(),
      "compress.biased: no, but choco diverges with unbiased random_k "
      "that drops half of a tensor or more, here 901 of the 1000 "
      "elements of tensor0; expected yes, or a compress.ratio that keeps more");
  run.sync.compress.biased = true;
  EXPECT_EQ(obstacle(), "");
  // Out of 1000 elements the first keeps 499 and the second 501.
  run.sync.compress = {.kind = "random_k", .ratio = 0.501};
  EXPECT_NE(obstacle(), "");
  run.sync.compress.ratio = 0.499;
  EXPECT_EQ(obstacle(), "");
  run.sync.compress = {.kind = "qsgd", .bits = 2};
  EXPECT_EQ(obstacle(), "");
  run.sync.wire = Wire::kBf16;
  EXPECT_EQ(obstacle(),
            "sync.wire: bf16 with a compressor, whose messages have a format "
            "of their own, expected fp32");
  run.sync.wire = Wire::kF32;
  run.sync.compress.bits = 99;
  EXPECT_NE(obstacle().find("compress.bits"), std::string::npos);
}

}  // namespace
}  // namespace syncopate
