// ESync: the rules of the state server, and the effect of rounds, boundaries
// and step times on training.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "sync/state_server.h"
#include "unit/sync/reference.h"

namespace syncopate {
namespace {

using test::ToyRun;

// --- the state server --------------------------------------------------------

// Two workers; worker 1 takes 4 s per step. Both begin round 0 at time 0.
StateServer known_server(double epsilon_s, double epsilon_steps) {
  StateServer server(2, epsilon_s, epsilon_steps);
  server.begin();
  for (const int rank : {0, 1}) server.reset(rank, 0, 0.0);
  server.query(0, 0, 1, 0.0);
  server.query(1, 0, 4, 0.0);
  return server;
}

TEST(StateServer, AtLeastOneLocalStep) {
  StateServer server = known_server(100, 0);
  EXPECT_FALSE(server.query(0, 0, 1, 1.0));
  EXPECT_TRUE(server.query(0, 1, 1, 1.0));
}

TEST(StateServer, AsManyStepsAsFit) {
  StateServer server = known_server(0, 0);
  for (const double now : {1.0, 2.0, 3.0})
    EXPECT_FALSE(server.query(0, 1, 1, now));  // another ends at 4 at the most
  EXPECT_TRUE(server.query(0, 4, 1, 4.0));
}

// The query exceeds the time left by 0.1 of a step, or by 0.1 s.
TEST(StateServer, BothFormsOfEpsilonAdd) {
  EXPECT_FALSE(known_server(0, 0).query(0, 3, 1, 3.0));
  EXPECT_TRUE(known_server(0, 0.1).query(0, 3, 1, 3.0));
  EXPECT_TRUE(known_server(0.1, 0).query(0, 3, 1, 3.0));
  EXPECT_FALSE(known_server(0.25, 0).query(0, 2, 1, 2.5));
  EXPECT_FALSE(known_server(0, 0.25).query(0, 2, 1, 2.5));
  EXPECT_FALSE(known_server(0.25, 0.25).query(0, 2, 1, 2.5));
  EXPECT_TRUE(known_server(0.25, 0.3).query(0, 2, 1, 2.5));
}

TEST(StateServer, SlowestIsReadyAndThenAllAre) {
  StateServer server = known_server(0, 0);
  EXPECT_TRUE(server.query(1, 1, 4, 1.0));
  EXPECT_TRUE(server.query(0, 1, 1, 1.0));
}

// Among equal workers the first counts as the slowest: worker 0 is ready at
// once, although another step of worker 1 would still fit.
TEST(StateServer, TiesGoToTheLowestRank) {
  StateServer server = known_server(0, 0);
  server.query(0, 0, 4, 0.0);
  EXPECT_FALSE(server.query(1, 1, 4, -1.0));
  EXPECT_TRUE(server.query(0, 1, 4, -1.0));
}

TEST(StateServer, SlowestMustHaveBegunTheRound) {
  StateServer server = known_server(0, 0);
  server.reset(0, 1, 10.0);
  EXPECT_FALSE(server.query(0, 1, 1, 99.0));
  server.reset(1, 1, 12.0);
  EXPECT_FALSE(server.query(0, 2, 1, 12.0));  // 4 s of worker 1 from here
  EXPECT_TRUE(server.query(0, 6, 1, 15.5));
}

TEST(StateServer, FirstResetOfARoundClearsReady) {
  StateServer server = known_server(0, 0);
  ASSERT_TRUE(server.query(1, 1, 4, 0.0));
  server.reset(1, 1, 0.0);
  server.reset(0, 1, 0.0);  // of the same round: nothing else changes
  EXPECT_FALSE(server.query(0, 1, 1, 1.0));
}

// --- rounds ------------------------------------------------------------------

// A run, and each worker's local steps per round. A worker's round ends where
// its series counts one.
struct Rounds {
  test::ToyResult result;
  std::vector<std::vector<int64_t>> local_steps;
  std::vector<std::vector<double>> waited_s;
  std::vector<double> abandoned;
  Rounds(int workers, ToyRun run)
      : local_steps(workers), waited_s(workers), abandoned(workers, 0.0) {
    run.after_step = [this](int rank, const StepPlan&, Scheme& scheme,
                            Replica&) {
      const std::vector<double> row = scheme.take_series();
      abandoned[rank] += row[3];
      if (static_cast<size_t>(row[0]) == local_steps[rank].size()) return;
      local_steps[rank].push_back(static_cast<int64_t>(row[1]));
      waited_s[rank].push_back(row[2]);
    };
    result = test::train_toy(workers, run);
  }
};

ToyRun esync() {
  return test::run_of("esync");
}

TEST(Esync, LocalStepsFollowTheSpeeds) {
  for (const int ratio : {4, 117}) {
    ToyRun run = esync();
    run.sync.esync.epsilon_steps = "0";
    run.step_s = {1, static_cast<double>(ratio)};
    run.steps = 1 + 4 * (ratio + 1) / 2;
    const Rounds rounds(2, run);
    ASSERT_GE(rounds.local_steps[0].size(), 4u);
    // In the first round no step times are known.
    for (size_t round = 1; round < 4; ++round) {
      EXPECT_EQ(rounds.local_steps[0][round], ratio);
      EXPECT_EQ(rounds.local_steps[1][round], 1);
    }
    EXPECT_EQ(test::sum_of(rounds.result.steps), 2 * run.steps);
  }
}

// Integer ratios, the default: the fast worker's steps fill the slow one's
// exactly, also if the seconds are not sums of powers of two.
TEST(Esync, WholeRatiosAreWholeNumbersOfSteps) {
  for (const double unit_s : {1.0, 0.1, 0.03, 1e-4})
    for (int ratio = 2; ratio <= 8; ++ratio) {
      ToyRun run = esync();
      run.step_s = {unit_s, ratio * unit_s};
      run.steps = 1 + 100 * (ratio + 1) / 2;
      const Rounds rounds(2, run);
      ASSERT_GE(rounds.local_steps[0].size(), 99u) << ratio;
      for (size_t round = 1; round < 99; ++round) {
        EXPECT_EQ(rounds.local_steps[0][round], ratio)
            << unit_s << " s, 1:" << ratio << ", round " << round;
        EXPECT_EQ(rounds.local_steps[1][round], 1);
      }
    }
}

// All workers but the slowest wait for less than one of their own steps plus
// epsilon; the slowest does not wait.
TEST(Esync, WaitsForLessThanAStep) {
  const std::vector<std::vector<double>> patterns = {
      {1, 4}, {4, 1}, {1, 1.5, 3.7}, {3, 0.4, 1.1, 2.9}, {2, 2, 2, 2, 7, 1}};
  for (const double epsilon_steps : {0.0, 0.1, 0.5}) {
    for (const std::vector<double>& step_s : patterns) {
      const int workers = static_cast<int>(step_s.size());
      const double longest = *std::max_element(step_s.begin(), step_s.end());
      ToyRun run = esync();
      run.steps = 60;
      run.step_s = step_s;
      run.sync.esync.epsilon_steps = std::to_string(epsilon_steps);
      const Rounds rounds(workers, run);
      for (int rank = 0; rank < workers; ++rank) {
        const double bound =
            step_s[rank] < longest ? (1 + epsilon_steps) * step_s[rank] : 0;
        ASSERT_GE(rounds.waited_s[rank].size(), 5u);
        // In the first round no step times are known; the last one is
        // incomplete.
        for (size_t round = 1; round + 1 < rounds.waited_s[rank].size();
             ++round)
          EXPECT_LE(rounds.waited_s[rank][round], bound + 1e-9)
              << rank << " of " << workers << ", round " << round;
      }
    }
  }
}

// One local step per round is synchronous SGD: with a large epsilon no second
// one begins.
TEST(Esync, OneLocalStepIsBsp) {
  for (const int workers : {1, 2, 3, 4, 6, 8, 9}) {
    ToyRun run = esync();
    run.sync.esync.epsilon_s = 100;
    run.num_buffers = 0;
    const auto rounds = test::train_toy(workers, run);
    run.sync.scheme = "bsp";
    const auto bsp = test::train_toy(workers, run);
    EXPECT_EQ(rounds.steps, std::vector<int64_t>(workers, run.steps));
    test::expect_equal_replicas(rounds);
    test::expect_near(rounds.parameters, bsp.parameters, 2e-6);
  }
}

TEST(Esync, GlobalRateScalesTheMeanDifference) {
  ToyRun run = esync();
  run.steps = 1;
  run.sync.esync.epsilon_s = 100;
  run.sync.esync.global_lr = 0.5;
  const auto half = test::train_toy(3, run);
  run.sync.esync.global_lr = 1;
  const auto whole = test::train_toy(3, run);
  const test::Matrix start = test::start_of(run, 3);
  test::expect_near(
      half.parameters,
      test::sum(start, 0.5, test::sum(whole.parameters, -1, start)), 1e-6);
}

TEST(Esync, StatisticsAreAveragedOrNot) {
  ToyRun run = esync();
  run.sync.esync.epsilon_s = 100;
  const auto averaged = test::train_toy(3, run);
  run.sync.esync.batchnorm = Statistics::kLocal;
  const auto local = test::train_toy(3, run);
  for (const int rank : {0, 1, 2}) {
    EXPECT_NEAR(averaged.buffers[rank][0], 1 + 0.5 * 9, 1e-5);
    EXPECT_NEAR(local.buffers[rank][0], rank + 0.5 * 9, 1e-5);
  }
}

TEST(Esync, SendsAnAllReduceARound) {
  for (const int workers : {2, 3, 4}) {
    ToyRun run = esync();
    run.sync.esync.epsilon_s = 100;
    const auto result = test::train_toy(workers, run);
    for (int rank = 0; rank < workers; ++rank) {
      int64_t bytes = 0;
      for (const int64_t elems : {int64_t{48}, run.num_buffers})
        bytes += all_reduce_bytes(CollectiveAlgorithm::kRing, workers, rank,
                                  elems, Wire::kF32);
      EXPECT_EQ(result.payload_bytes[rank], run.steps * bytes);
    }
  }
}

// --- boundaries --------------------------------------------------------------

// No interleaving of ending steps, averages and boundaries deadlocks, loses a
// step or leaves replicas different at the end.
TEST(Esync, EndsEverySegmentTogether) {
  for (const Query query : {Query::kBlocking, Query::kNonBlocking}) {
    for (const int workers : {1, 2, 3, 4, 6, 8, 9}) {
      for (int pattern = 0; pattern < 6; ++pattern) {
        ToyRun run = esync();
        run.steps = 12;
        run.optimizer.momentum = 0.5;
        run.sync.esync.query = query;
        run.sync.esync.epsilon_steps = pattern % 2 == 0 ? "0.1" : "auto";
        run.boundary_every = 1 + pattern % 5;
        run.step_time = [pattern](int rank, int64_t step) {
          const uint64_t mixed = (rank + 1) * 2654435761u + step * 40503u +
                                 static_cast<uint64_t>(pattern) * 97u;
          return pattern == 0 ? 1.0 : 0.25 * (1 + mixed / 7 % 29);
        };
        run.at_boundary = [&](int rank, int64_t worker_steps, Scheme& scheme,
                              Replica&) {
          scheme.quiesce();  // once or more
          EXPECT_TRUE(worker_steps % (run.boundary_every * workers) == 0 ||
                      worker_steps == run.steps * workers)
              << rank;
        };
        const auto result = test::train_toy(workers, run);
        test::expect_equal_replicas(result);
        EXPECT_TRUE(std::isfinite(result.parameters[0][0]));
        EXPECT_EQ(test::sum_of(result.steps), run.steps * workers);
      }
    }
  }
}

// A round goes on over a boundary as if there were none, in another process
// too.
TEST(Esync, BoundariesChangeNothing) {
  for (const Query query : {Query::kBlocking, Query::kNonBlocking})
    for (const Statistics batchnorm :
         {Statistics::kAveraged, Statistics::kLocal})
      for (const int64_t every : {1, 4, 5}) {
        ToyRun run = esync();
        run.steps = 40;
        run.optimizer.momentum = 0.9;
        run.optimizer.lr = 0.02;
        // In the second, workers often end their steps at the same time.
        run.step_s = {1, 8.3, 0.6};
        if (every == 4) run.step_s = {3, 9, 1};
        run.boundary_every = every;
        run.sync.esync.query = query;
        run.sync.esync.batchnorm = batchnorm;
        run.sync.esync.global_lr = 0.7;
        SCOPED_TRACE(fmt::format("query {}, statistics {}, boundary every {}",
                                 query == Query::kBlocking ? "blocking" : "not",
                                 batchnorm == Statistics::kLocal, every));
        test::expect_boundaries_change_nothing(3, run, {20, 35},
                                               {.latency_s = 0.3});
      }
}

// A message takes 0.5 s. Worker 0 holds the state server and is the root of the
// count, so it begins an average 0.5 s before worker 1 does, and ends it 0.5 s
// before. In round 0 worker 1 takes one step until 5 and has its answer at 6,
// and the count is complete at 6.5 and 7, the average at 7.5 and 8. In round 1
// worker 0 takes 3 steps until 10.5, the end of the segment's work, while
// worker 1 takes one until 13. Worker 0 goes on at 10.5 and takes the two steps
// for which there is time until 13; worker 1 has its answer at 14, and the
// count is complete at 14.5 and 15, the average at 15.5 and 16.
TEST(Esync, ABoundaryWithinARoundIsFree) {
  ToyRun run = esync();
  run.steps = 4;
  run.boundary_every = 3;
  run.sync.esync.epsilon_steps = "0";
  run.step_s = {1, 5};
  const auto result = test::train_toy(2, run, {.latency_s = 0.5});
  EXPECT_EQ(result.steps, (std::vector<int64_t>{6, 2}));
  EXPECT_DOUBLE_EQ(result.clock[0], 15.5);
  EXPECT_DOUBLE_EQ(result.clock[1], 16);
}

struct Held {
  std::vector<float> parameters, buffers;
};
std::vector<float> on_host(const DeviceVector<float>& range) {
  OnHost host(range);
  return {host.values().begin(), host.values().end()};
}
Held evaluated(Scheme& scheme, const Replica& replica, EvalModel which) {
  const auto range_like = [&](const auto& range) {
    return DeviceVector<float>(replica.buffers.device(),
                               replica.buffers.stream(), range.size());
  };
  const auto parameters = range_like(replica.parameters);
  const auto buffers = range_like(replica.buffers);
  scheme.evaluation_model(which, parameters, buffers);
  return {on_host(parameters), on_host(buffers)};
}

// The model of a boundary within round 1 is w_1, the mean of one local step of
// each worker from w_0, although the replicas are some steps further.
TEST(Esync, AnOpenRoundIsEvaluatedAtItsStart) {
  ToyRun run = esync();
  run.steps = 4;
  run.boundary_every = 3;
  run.step_s = {1, 5};
  run.gradient = test::quadratic_gradient;
  test::Matrix w = test::start_of(run, 2), momentum = test::zeros_like(w);
  test::local_step(run, 0, w, momentum);
  test::average_groups({{0, 1}}, w);
  int evaluations = 0;
  run.at_boundary = [&](int rank, int64_t worker_steps, Scheme& scheme,
                        Replica& replica) {
    if (worker_steps != 6) return;
    for (const EvalModel which :
         {EvalModel::kEach, EvalModel::kAverage, EvalModel::kRank0}) {
      const Held model = evaluated(scheme, replica, which);
      for (size_t i = 0; i < w[rank].size(); ++i)
        ASSERT_NEAR(model.parameters[i], w[rank][i], 1e-6) << rank << ' ' << i;
      EXPECT_FLOAT_EQ(model.buffers[0], 0.5f);  // of ranks 0 and 1, step 0
      ++evaluations;
    }
    const double here = on_host(replica.parameters.write())[0];
    EXPECT_GT(std::abs(here - w[rank][0]), 1e-3);
  };
  test::train_toy(2, run);
  EXPECT_EQ(evaluations, 6);
}

// Whatever ends an open round, the workers' local steps count.
TEST(Esync, TheEndOfTheRunAndAHandoverEndTheRound) {
  for (const bool is_handover : {false, true}) {
    ToyRun run = esync();
    run.steps = 6;
    run.boundary_every = 3;
    run.step_s = {1, 5};
    run.sync.esync.global_lr = 0.5;
    std::vector<std::vector<float>> local(2), w(2), merged(2);
    run.at_boundary = [&](int rank, int64_t worker_steps, Scheme& scheme,
                          Replica& replica) {
      if (worker_steps != (is_handover ? 6 : 12)) return;
      w[rank] = evaluated(scheme, replica, EvalModel::kEach).parameters;
      local[rank] = on_host(replica.parameters.write());
      if (!is_handover) return;
      scheme.leave(run.optimizer.lr);
      merged[rank] = on_host(replica.parameters.write());
      scheme.enter();
    };
    const auto result = test::train_toy(2, run);
    test::expect_equal_replicas(result);
    ASSERT_NE(local[0], local[1]);
    for (int rank = 0; rank < 2; ++rank)
      for (size_t i = 0; i < local[0].size(); ++i) {
        const double mean = (local[0][i] + local[1][i]) / 2.0;
        ASSERT_NEAR(is_handover ? merged[rank][i] : result.parameters[rank][i],
                    w[rank][i] + 0.5 * (mean - w[rank][i]), 1e-6)
            << rank << ' ' << i;
      }
  }
}

TEST(Esync, AbandonsTheStepThatReadyOvertakes) {
  ToyRun run = esync();
  run.sync.esync.query = Query::kNonBlocking;
  run.steps = 20;
  run.step_s = {1, 4};
  const Rounds rounds(2, run);
  EXPECT_GT(rounds.abandoned[0] + rounds.abandoned[1], 0);
  int64_t applied = 0;
  for (const auto& worker : rounds.local_steps) applied += test::sum_of(worker);
  // Every ticket was a local step or an abandoned one.
  EXPECT_LE(applied + rounds.abandoned[0] + rounds.abandoned[1],
            test::sum_of(rounds.result.steps));
  run.sync.esync.query = Query::kBlocking;
  EXPECT_EQ(Rounds(2, run).abandoned, (std::vector<double>{0, 0}));
}

// Neither a discarded gradient nor its forward pass has an effect.
TEST(Esync, ThrowsTheAbandonedGradientAway) {
  ToyRun run = esync();
  run.sync.esync.query = Query::kNonBlocking;
  run.steps = 3;
  run.sync.esync.epsilon_s = 100;  // ready after each step
  int64_t calls = 0;
  run.gradient = [&](int, int64_t step, std::span<const float>,
                     std::span<float> g) {
    ++calls;
    // Odd steps are abandoned.
    std::fill(g.begin(), g.end(), step % 2 == 0 ? 1.0f : NAN);
  };
  run.statistics = [](int, int64_t step, std::span<float> values) {
    for (float& value : values) value += step % 2 == 0 ? 1.0f : 100.0f;
  };
  const auto result = test::train_toy(1, run);
  EXPECT_EQ(calls, 3);
  const test::Matrix start = test::start_of(run, 1);
  test::expect_near(
      result.parameters,
      test::sum(start, -0.2, test::Matrix(1, test::Vector(48, 1))), 1e-6);
  ASSERT_EQ(result.buffers[0].size(), 3u);
  for (const double value : result.buffers[0]) EXPECT_EQ(value, 2);
}

}  // namespace
}  // namespace syncopate
