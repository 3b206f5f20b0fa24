// Common tests of gossip schemes: each against its recursion written with
// matrices, and the properties of the mean, copies, messages and time.
// SPDX-License-Identifier: Apache-2.0
#include "unit/sync/gossip_toy.h"

namespace syncopate {
namespace {

using test::compress;
using test::gradients_at;
using test::Matrix;
using test::multiply;
using test::sum;
using test::ToyRun;

// All workers' models and further state: xhat, the error.
struct Course {
  const ToyRun& run;
  Matrix w, x, kept;

  Course(const ToyRun& run_, int workers)
      : run(run_),
        w(test::mixing_matrix(run.sync.topology, workers)),
        x(test::start_of(run, workers)),
        kept(test::zeros_like(x)) {}
  // x - lr g(x)
  Matrix after_gradient(int64_t step) const {
    return sum(x, -run.optimizer.lr, gradients_at(run, step, x));
  }
  // gamma (W - I) y
  Matrix drawn_by(const Matrix& y) const {
    return sum(x, run.sync.choco.gamma, sum(multiply(w, y), -1, y));
  }
};

void d_psgd(Course& at, int64_t step) {
  at.x = multiply(at.w, at.after_gradient(step));
}

void choco(Course& at, int64_t step) {
  at.x = at.after_gradient(step);
  at.x = at.drawn_by(at.kept);
  at.kept = sum(at.kept, 1, compress(at.run, sum(at.x, -1, at.kept)));
}

void dcd_psgd(Course& at, int64_t step) {
  const Matrix half = sum(multiply(at.w, at.x), -at.run.optimizer.lr,
                          gradients_at(at.run, step, at.x));
  at.x = sum(at.x, 1, compress(at.run, sum(half, -1, at.x)));
}

// xhat where q has coordinates: (1 - share) xhat + share q.
void ecd_psgd(Course& at, int64_t step) {
  if (step == 0) at.kept = at.x;
  const double half_t = static_cast<double>(step + 1) / 2, share = 1 / half_t;
  const Matrix next = sum(multiply(at.w, at.kept), -at.run.optimizer.lr,
                          gradients_at(at.run, step, at.x));
  const Matrix q =
      compress(at.run, sum(sum(at.x, -half_t, at.x), half_t, next));
  const bool is_sparse = at.run.sync.compress.kind == "top_k";
  for (size_t i = 0; i < q.size(); ++i)
    for (size_t e = 0; e < q[i].size(); ++e)
      if (!is_sparse || q[i][e] != 0)
        at.kept[i][e] = (1 - share) * at.kept[i][e] + share * q[i][e];
  at.x = next;
}

void deep_squeeze(Course& at, int64_t step) {
  at.x = at.after_gradient(step);
  const Matrix v = sum(at.kept, 1, at.x), q = compress(at.run, v);
  at.kept = sum(v, -1, q);
  at.x = at.drawn_by(q);
}

struct Recursion {
  const char* scheme;
  void (*step)(Course&, int64_t);
  const char* kept;  // its name in the scheme's state
};

class EveryGossip : public testing::TestWithParam<Recursion> {};

TEST_P(EveryGossip, FollowsTheRecursion) {
  for (const char* kind : {"identity", "top_k"}) {
    for (const auto& [topology, workers] : test::all_topologies()) {
      ToyRun run = test::gossip_run(GetParam().scheme);
      run.sync.topology = topology;
      run.sync.compress.kind = kind;
      SCOPED_TRACE(test::text_of(run, workers));
      Course at(run, workers);
      for (int64_t step = 0; step < run.steps; ++step)
        GetParam().step(at, step);
      test::expect_near(test::train_toy(workers, run).parameters, at.x, 1e-5);
      if (GetParam().kept != nullptr)
        test::expect_near(
            test::range_of(test::states_after(workers, run), GetParam().kept),
            at.kept, 1e-5);
    }
  }
}

TEST_P(EveryGossip, GoesOnToTheBit) {
  const bool is_quick = GetParam().scheme == std::string("d_psgd");
  for (ToyRun run : test::gossip_runs(GetParam().scheme)) {
    run.step_s = {1, 1.5, 1, 2};
    run.optimizer.momentum = 0.9;
    run.steps = 10;
    run.boundary_every = 3;
    test::expect_boundaries_change_nothing(
        4, run, {3, 6},
        is_quick ? NetworkCost{.latency_s = 0.25, .bytes_per_s = 400}
                 : NetworkCost{.latency_s = 2.75, .bytes_per_s = 100});
  }
}

// One message per neighbour and step, however many buckets there are.
TEST_P(EveryGossip, SendsAMessageToEachNeighbour) {
  for (ToyRun run : test::gossip_runs(GetParam().scheme)) {
    for (const char* kind : {"ring", "complete", "exponential"}) {
      for (const int workers : {1, 2, 3, 6}) {
        run.sync.topology.kind = kind;
        run.bucket_elems = 16;
        const auto result = test::train_toy(workers, run);
        const Topology topology = make_topology(run.sync.topology, workers);
        for (int i = 0; i < workers; ++i)
          EXPECT_EQ(result.payload_bytes[i], (topology.scaling(i) - 1) *
                                                 test::toy_message_bytes(run) *
                                                 run.steps);
        run.bucket_elems = 1;
        EXPECT_EQ(test::train_toy(workers, run).parameters, result.parameters);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Schemes,
    EveryGossip,
    testing::Values(Recursion{"d_psgd", d_psgd, nullptr},
                    Recursion{"choco", choco, "xhat"},
                    Recursion{"dcd_psgd", dcd_psgd, nullptr},
                    Recursion{"ecd_psgd", ecd_psgd, "xhat"},
                    Recursion{"deep_squeeze", deep_squeeze, "error"}),
    [](const auto& info) { return info.param.scheme; });

// Also for values that are rounded in messages: with the precision of fp32, not
// of bf16.
TEST(Gossip, KeepsTheMean) {
  for (const char* scheme : {"d_psgd", "choco", "deep_squeeze"}) {
    for (const auto& [topology, workers] : test::all_topologies()) {
      for (ToyRun run : test::gossip_runs(scheme)) {
        run.sync.topology = topology;
        run.optimizer.lr = 0;
        SCOPED_TRACE(test::text_of(run, workers));
        const Matrix x = test::start_of(run, workers);
        const auto result = test::train_toy(workers, run);
        test::expect_near({test::mean_of(result.parameters)},
                          {test::mean_of(x)}, 1e-6);
        if (workers == 1 || test::is_compressed(scheme)) continue;
        EXPECT_LT(test::consensus_error(result.parameters),
                  test::consensus_error(x));
      }
    }
  }
}

// The largest change of an element of the mean over the workers in the last
// 1,000 of `steps` steps, whose rate is 0. The steps before have a rate of 0.1
// and gradients that keep the workers apart.
double mean_drift(ToyRun run, int workers, int64_t steps) {
  constexpr int64_t kStill = 1000;
  const double moving = static_cast<double>(steps - kStill);
  run.steps = steps;
  run.boundary_every = kStill;
  run.num_buffers = 0;
  run.schedule = {.kind = ScheduleKind::kMultistep,
                  .milestones = {{.value = moving}},
                  .gamma = 0};
  Matrix before(workers), after(workers);
  run.at_boundary = [&](int rank, int64_t worker_steps, Scheme&,
                        Replica& replica) {
    OnHost x(replica.parameters.write());
    const std::span<const float> values = x.values();
    if (worker_steps == (steps - kStill) * workers)
      before[rank].assign(values.begin(), values.end());
    after[rank].assign(values.begin(), values.end());
  };
  test::train_toy(workers, run);
  const test::Vector then = test::mean_of(before), now = test::mean_of(after);
  double drift = 0;
  for (size_t e = 0; e < now.size(); ++e)
    drift = std::max(drift, std::abs(now[e] - then[e]));
  return drift;
}

// Also after a long run that leaves large residuals, where rounding errors of
// the state would be added to all models at every step, regardless of the rate.
TEST(Gossip, KeepsTheMeanAfterALongRun) {
  ToyRun run = test::gossip_run("d_psgd");
  run.sync.topology.kind = "complete";
  EXPECT_LT(mean_drift(run, 7, 3000), 3e-6);
  run = test::gossip_run("deep_squeeze");
  run.sync.choco.gamma = 0.1;
  EXPECT_LT(mean_drift(run, 8, 3000), 3e-5);
  run = test::gossip_run("choco");
  run.sync.choco.gamma = 0.3;
  EXPECT_LT(mean_drift(run, 8, 6000), 3e-5);
  run.sync.choco.gamma = 0.5;
  run.sync.compress.kind = "sign";
  EXPECT_LT(mean_drift(run, 8, 6000), 3e-5);
}

// A worker's copy of a neighbour equals the neighbour's own copy bit for bit.
TEST(Gossip, CopiesAreTheNeighboursOwn) {
  std::vector<CompressOptions> kinds = test::contractive_compressors();
  kinds.push_back({.kind = "random_k", .ratio = 0.5});
  kinds.push_back({.kind = "qsgd", .bits = 4});
  for (const auto& [scheme, own] :
       {std::pair{"dcd_psgd", "parameters"}, {"ecd_psgd", "xhat"}}) {
    for (const CompressOptions& compress : kinds) {
      for (const int workers : {2, 3, 6}) {
        ToyRun run = test::gossip_run(scheme);
        run.sync.compress = compress;
        SCOPED_TRACE(test::text_of(run, workers));
        const auto states = test::states_after(workers, run);
        const Topology topology = make_topology(run.sync.topology, workers);
        for (int i = 0; i < workers; ++i)
          for (const auto& [j, weight] : topology.neighbours(i)) {
            const auto copy = states[i]["xhat_of_" + std::to_string(j)];
            EXPECT_EQ(copy.size(), 48u);
            EXPECT_EQ(copy, states[j][own]);
          }
      }
    }
  }
}

// A step of 1 s hides a round of 0.75 s, and all but 1.5 s of one of 2.5 s.
// Nothing hides what deep_squeeze's next step needs.
TEST(Gossip, HidesMessagesUnderTheNextStep) {
  const auto clock = [](const char* scheme, double latency_s) {
    return test::train_toy(4, test::gossip_run(scheme),
                           {.latency_s = latency_s})
        .clock;
  };
  for (const char* scheme : {"choco", "dcd_psgd", "ecd_psgd"}) {
    EXPECT_EQ(clock(scheme, 0.75), std::vector<double>(4, 5)) << scheme;
    EXPECT_EQ(clock(scheme, 2.5), std::vector<double>(4, 1 + 4 * 2.5))
        << scheme;
  }
  EXPECT_EQ(clock("deep_squeeze", 0.75), std::vector<double>(4, 5 * 1.75));
}

// Two messages to one receiver must not meet while another receiver's link is
// idle: each of a round's messages then takes as long as one alone.
TEST(Gossip, MessagesOfARoundTakeTurns) {
  const std::vector<std::pair<std::string, int>> graphs = {
      {"ring", 2},        {"ring", 3},        {"ring", 8},
      {"ring", 9},        {"complete", 5},    {"complete", 8},
      {"exponential", 6}, {"exponential", 8}, {"exponential", 13},
      {"torus", 9},       {"torus", 12},      {"torus", 20},
  };
  for (const auto& [kind, workers] : graphs) {
    ToyRun run = test::quick_run_of("d_psgd");
    run.sync.topology.kind = kind;
    run.steps = 4;
    const double bytes = 4.0 * (7 + 1 + 40);
    const auto clock =
        test::train_toy(workers, run, {.bytes_per_s = bytes}).clock;
    const int degree = make_topology(run.sync.topology, workers).scaling(0) - 1;
    for (const double end : clock)
      EXPECT_NEAR(end, 4 * (1 + degree), 1e-9) << kind << " of " << workers;
  }
}

// One slow step of worker 0 delays a worker `distance` steps later, and one
// step later than that if messages overlap with the next step.
TEST(Gossip, ASlowWorkerDelaysOnlyAsTheGraphSays) {
  ToyRun run = test::gossip_run("d_psgd");
  run.step_time = test::one_slow_step();
  run.steps = 3;
  EXPECT_EQ(test::train_toy(9, run).clock,
            (std::vector<double>{10, 10, 10, 10, 3, 3, 10, 10, 10}));
  run = test::gossip_run("choco");
  run.step_time = test::one_slow_step();
  run.steps = 4;
  EXPECT_EQ(test::train_toy(9, run).clock,
            (std::vector<double>{11, 10, 9, 8, 4, 4, 8, 9, 10}));
}

// Without compression xhat is x, which gives D-PSGD in combine-then-adapt
// order.
TEST(EcdPsgd, UncompressedNeedsNoExtrapolation) {
  ToyRun run = test::gossip_run("ecd_psgd");
  run.sync.compress.kind = "identity";
  run.steps = 20;
  const auto states = test::states_after(4, run);
  test::expect_near(test::range_of(states, "xhat"),
                    test::range_of(states, "parameters"), 1e-5);
}

// Unbiased messages give unbiased estimates: a coordinate that is not sent
// counts as 0, and those sent are larger for it.
TEST(EcdPsgd, EstimatesAreUnbiasedWithoutAllCoordinates) {
  ToyRun run = test::gossip_run("ecd_psgd");
  run.tensors = {400};
  run.sync.compress = {.kind = "random_k", .ratio = 0.02};
  run.optimizer.lr = 0;
  run.steps = 40;
  const Matrix x = test::start_of(run, 1);
  double square = 0, product = 0;
  const auto states = test::states_after(4, run);
  for (const auto& row : test::range_of(states, "xhat"))
    for (size_t e = 0; e < row.size(); ++e) {
      square += x[0][e] * x[0][e];
      product += x[0][e] * row[e];
    }
  EXPECT_NEAR(product / square, 1, 0.1);
}

TEST(DeepSqueeze, NamesWhatCannotRun) {
  ToyRun run = test::gossip_run("deep_squeeze");
  run.tensors = {1000};
  run.sync.compress = {.kind = "random_k", .ratio = 0.9};
  EXPECT_NE(test::obstacle_of(run, 4).find("deep_squeeze diverges"),
            std::string::npos);
}

TEST(DPsgd, OnTheCompleteGraphAveragesParameters) {
  ToyRun run = test::gossip_run("d_psgd");
  run.sync.topology.kind = "complete";
  for (const int workers : {2, 3, 4, 8}) {
    Course at(run, workers);
    for (int64_t step = 0; step < run.steps; ++step)
      at.x.assign(workers, test::mean_of(at.after_gradient(step)));
    test::expect_near(test::train_toy(workers, run).parameters, at.x, 1e-5);
  }
}

// Steps of 1e-4 at values near 1, where bf16 resolves 1/256.
TEST(DPsgd, LosesNoSmallStepToBf16) {
  ToyRun run = test::gossip_run("d_psgd");
  run.sync.wire = Wire::kBf16;
  run.steps = 50;
  run.optimizer.lr = 1e-4;
  run.start = [](int, int64_t) { return 1.0f; };
  run.gradient = [](int, int64_t, std::span<const float>, std::span<float> g) {
    std::fill(g.begin(), g.end(), 1.0f);
  };
  for (const auto& x : test::train_toy(4, run).parameters)
    for (const double value : x) EXPECT_NEAR(value, 1 - 50e-4, 1e-5);
}

TEST(DPsgd, RefusesTopologiesThatAreNone) {
  ToyRun run = test::gossip_run("d_psgd");
  run.sync.topology.kind = "torus";
  EXPECT_NE(test::obstacle_of(run, 8).find("torus"), std::string::npos);
  EXPECT_EQ(test::obstacle_of(run, 9), "");
}

}  // namespace
}  // namespace syncopate
