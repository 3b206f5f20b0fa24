// Stochastic gradient push: its recursion and its properties.
#include "unit/sync/gossip_toy.h"

namespace syncopate {
namespace {

using test::Matrix;
using test::ToyRun;
using test::Vector;

// Column j of step t: half stays, half goes to j + 2^(t mod ceil(log2 N)).
Matrix push_matrix(int64_t step, int workers) {
  int kinds = 0;
  while ((1 << kinds) < workers) ++kinds;
  const int hop = kinds == 0 ? 0 : 1 << (step % kinds);
  Matrix p(workers, Vector(workers, 0.0));
  for (int j = 0; j < workers; ++j) {
    p[j][j] += 0.5;
    p[(j + hop) % workers][j] += 0.5;
  }
  return p;
}

ToyRun push_run() {
  ToyRun run = test::gossip_run("sgp");
  run.steps = 7;
  return run;
}

// Algorithm 1: the models z = x / w after the run; `set_weight` may change w
// before a step.
Matrix pushed(
    const ToyRun& run,
    int workers,
    const std::function<void(int64_t step, Matrix& weight)>& set_weight =
        [](int64_t, Matrix&) {}) {
  Matrix z = test::start_of(run, workers), weight(workers, Vector(1, 1.0));
  for (int64_t step = 0; step < run.steps; ++step) {
    set_weight(step, weight);
    Matrix x = z;
    for (int i = 0; i < workers; ++i)
      for (double& value : x[i]) value *= weight[i][0];
    const Matrix p = push_matrix(step, workers);
    x = test::multiply(
        p, test::sum(x, -run.optimizer.lr, test::gradients_at(run, step, z)));
    weight = test::multiply(p, weight);
    for (int i = 0; i < workers; ++i)
      for (size_t e = 0; e < x[i].size(); ++e) z[i][e] = x[i][e] / weight[i][0];
  }
  return z;
}

TEST(Sgp, FollowsTheRecursion) {
  for (const int workers : {1, 2, 3, 4, 6, 8, 9})
    test::expect_near(test::train_toy(workers, push_run()).parameters,
                      pushed(push_run(), workers), 1e-5);
}

// Gives a worker another weight w.
class SetWeight final : public StateVisitor {
 public:
  SetWeight(Scheme& scheme, double weight) : weight_(weight) {
    scheme.visit_state(*this);
  }
  void visit(Owner, std::string_view name, Values values) override {
    if (name == "weight") std::get<std::span<double>>(values)[0] = weight_;
  }

 private:
  double weight_;
};

// With weights other than 1, as on a graph where workers get different numbers
// of messages.
TEST(Sgp, DividesByTheWeight) {
  const auto weight_of = [](int rank) { return 0.5 + 0.25 * rank; };
  for (const int workers : {2, 3, 4, 6}) {
    ToyRun run = push_run();
    run.boundary_every = 1;
    run.at_boundary = [&](int rank, int64_t worker_steps, Scheme& scheme,
                          Replica&) {
      if (worker_steps == workers) SetWeight(scheme, weight_of(rank));
    };
    const auto set_weight = [&](int64_t step, Matrix& weight) {
      if (step != 1) return;
      for (int i = 0; i < workers; ++i) weight[i][0] = weight_of(i);
    };
    test::expect_near(test::train_toy(workers, run).parameters,
                      pushed(run, workers, set_weight), 1e-5);
  }
}

// Numerators and weights are conserved in every wire format.
TEST(Sgp, KeepsTheMeanAndTheSumOfWeights) {
  for (ToyRun run : test::gossip_runs("sgp")) {
    for (const int workers : {2, 3, 4, 6, 8, 9}) {
      run.optimizer.lr = 0;
      const auto states = test::states_after(workers, run);
      double weights = 0;
      for (const auto& state : states) weights += state["weight"].at(0);
      EXPECT_EQ(weights, workers);
      test::expect_near({test::mean_of(test::range_of(states, "parameters"))},
                        {test::mean_of(test::start_of(run, workers))}, 1e-6);
    }
  }
}

// Exact after log2 N steps if N is a power of two, else by a factor per round.
TEST(Sgp, ConvergesToTheMean) {
  for (const int workers : {2, 4, 8}) {
    ToyRun run = push_run();
    run.optimizer.lr = 0;
    run.steps = workers == 8 ? 3 : workers / 2;
    const Matrix start = test::start_of(run, workers);
    test::expect_near(test::train_toy(workers, run).parameters,
                      Matrix(workers, test::mean_of(start)), 1e-6);
    --run.steps;
    if (run.steps == 0) continue;
    EXPECT_GT(test::consensus_error(test::train_toy(workers, run).parameters),
              1);
  }
  for (const int workers : {3, 6, 9}) {
    ToyRun run = push_run();
    run.optimizer.lr = 0;
    run.steps = 40;
    test::expect_near(
        test::train_toy(workers, run).parameters,
        Matrix(workers, test::mean_of(test::start_of(run, workers))), 1e-5);
  }
}

TEST(Sgp, GoesOnToTheBit) {
  for (ToyRun run : test::gossip_runs("sgp")) {
    run.step_s = {1, 1.5, 1, 2};
    run.optimizer.momentum = 0.9;
    run.steps = 10;
    run.boundary_every = 3;
    test::expect_boundaries_change_nothing(
        4, run, {3, 6}, {.latency_s = 0.25, .bytes_per_s = 400});
  }
}

// One model and its weight to one peer per step.
TEST(Sgp, SendsOneMessageAStep) {
  for (const ToyRun& run : test::gossip_runs("sgp"))
    for (const int workers : {1, 2, 5}) {
      const int64_t message =
          workers == 1 ? 0 : test::toy_message_bytes(run) + 8;
      EXPECT_EQ(test::train_toy(workers, run).payload_bytes,
                std::vector<int64_t>(workers, run.steps * message));
    }
}

// One slow step of worker 0 reaches 1 by the first push, 2 and 3 by the second,
// 4 to 7 by the third, and others not yet.
TEST(Sgp, ASlowWorkerDelaysOnlyWhomItsPushesReach) {
  ToyRun run = push_run();
  run.step_time = test::one_slow_step();
  for (run.steps = 1; run.steps <= 3; ++run.steps) {
    std::vector<double> expected(16, static_cast<double>(run.steps));
    std::fill_n(expected.begin(), 1 << run.steps,
                static_cast<double>(run.steps + 7));
    EXPECT_EQ(test::train_toy(16, run).clock, expected);
  }
}

TEST(Sgp, TellsItsWeight) {
  ToyRun run = push_run();
  run.at_boundary = [](int, int64_t, Scheme& scheme, Replica&) {
    EXPECT_EQ(scheme.series().at(0).name, "push_sum_weight");
    EXPECT_EQ(scheme.take_series(), std::vector<double>{1});
  };
  test::train_toy(3, run);
}

}  // namespace
}  // namespace syncopate
