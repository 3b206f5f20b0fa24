// An optimizer that depends on its step count, under every scheme: one call per
// step, the count handed over with the moments, bit-exact resume.
#include "reference/optim_adam.h"
#include "unit/sync/captured_state.h"
#include "unit/sync/toy_run.h"

namespace syncopate {
namespace {

using test::ToyRun;

ToyRun adam_run(const std::string& scheme, const std::string& kind = "adam") {
  ToyRun run = test::quick_run_of(scheme);
  run.optimizer = {.kind = kind,
                   .lr = 0.02,
                   .beta1 = 0.8,
                   .beta2 = 0.95,
                   .weight_decay = 0.01};
  run.sync.dgc.mask_momentum = false;
  run.sync.sync_switch.lr_rule = LrRule::kNone;
  return run;
}

ToyRun switching(const std::string& order, double last_fraction) {
  ToyRun run = adam_run("sync_switch", "adamw");
  const auto phases = static_cast<double>(order.size());
  run.sync.sync_switch.order = {order};
  run.sync.sync_switch.fractions = std::vector<double>(
      order.size(), (1 - last_fraction) / std::max(1.0, phases - 1));
  run.sync.sync_switch.fractions.back() = last_fraction;
  return run;
}

class AdamUnder : public testing::TestWithParam<std::string> {};

TEST_P(AdamUnder, CountsEachStepOnce) {
  constexpr int kWorkers = 3;
  ToyRun run = adam_run(GetParam());
  run.boundary_every = 10;
  run.at_boundary = [&](int, int64_t worker_steps, Scheme& scheme, Replica&) {
    double expected = static_cast<double>(scheme.steps_done());
    // A server's optimizer takes the steps of all workers.
    if (GetParam() == "asp" || GetParam() == "ssp")
      expected = static_cast<double>(worker_steps);
    if (GetParam() == "sync_switch")  // 6 of bsp, 4 or 6 of asp, 8
      expected = worker_steps < 60 ? 6 + 3 * 4 : 6 + 3 * 6 + 8;
    test::CapturedState state(scheme);
    EXPECT_EQ(state["adam_steps"], std::vector<double>{expected});
  };
  test::train_toy(kWorkers, run);
}

TEST_P(AdamUnder, GoesOnToTheBit) {
  ToyRun run = adam_run(GetParam());
  run.boundary_every = 5;
  run.step_s = {1, 1.3, 0.57};
  test::expect_resumes(3, run, {5, 10, 15});
}

INSTANTIATE_TEST_SUITE_P(AllSchemes,
                         AdamUnder,
                         testing::ValuesIn(test::every_scheme()),
                         [](const auto& info) { return info.param; });

// With one worker the result is that of adam over the whole range.
TEST(AdamSchemes, OfOneWorkerAreLocalAdam) {
  for (const char* kind : {"adam", "adamw"})
    for (const int64_t boundary_every : {0, 4}) {
      ToyRun run = adam_run("bsp", kind);
      run.boundary_every = boundary_every;
      const auto local = test::train_toy(1, run);
      for (const char* scheme : {"asp", "ssp", "local_sgd"}) {
        run.sync.scheme = scheme;
        EXPECT_EQ(test::train_toy(1, run).parameters, local.parameters)
            << scheme << " " << kind;
      }
    }
}

// A switch must not change anything, including the count.
TEST(AdamSchemes, SyncSwitchCarriesTheCountOver) {
  for (const std::string order : {"10", "01", "101", "010"}) {
    const ToyRun run = switching(order, 0.3);
    ToyRun plain = run;
    plain.sync.scheme = "bsp";
    EXPECT_EQ(test::train_toy(1, run).parameters,
              test::train_toy(1, plain).parameters)
        << order;
  }
}

// With equal gradients, N steps of asp equal N steps of one worker, also if
// there are fewer shards than workers.
TEST(AdamSchemes, SyncSwitchCarriesTheCountOfAllWorkersOver) {
  constexpr int kWorkers = 3;
  for (const int64_t servers : {0, 1}) {
    ToyRun run = switching("101", 0.4);
    run.steps = 10;
    run.num_buffers = 0;
    run.sync.asp.servers = servers;
    run.gradient = [](int, int64_t, std::span<const float>,
                      std::span<float> g) { std::fill(g.begin(), g.end(), 1); };
    const auto result = test::train_toy(kWorkers, run);
    reference::Adam adam{.rate = run.optimizer.lr,
                         .beta1 = run.optimizer.beta1,
                         .beta2 = run.optimizer.beta2,
                         .eps = run.optimizer.eps,
                         .weight_decay = run.optimizer.weight_decay,
                         .is_decoupled = true,
                         .m = {},
                         .v = {}};
    reference::Values x = {double{run.start(0, 0)}};
    for (int step = 0; step < 3 + 3 * kWorkers + 4; ++step) adam.step(&x, {1});
    for (int rank = 0; rank < kWorkers; ++rank)
      EXPECT_NEAR(result.parameters[rank][0], x[0], 1e-5) << servers;
  }
}

// An excluded worker has the others' state at each boundary.
TEST(AdamSchemes, ElasticGivesTheCountToWhoIsLeftOut) {
  ToyRun run = switching("10", 0.5);
  run.steps = 40;
  run.boundary_every = 3;
  run.sync.sync_switch.policy = SwitchPolicy::kElastic;
  run.sync.sync_switch.window = 1;
  run.sync.sync_switch.consecutive = 3;
  run.step_time = [](int rank, int64_t) { return rank == 2 ? 3.0 : 1.0; };
  std::map<int64_t, std::vector<std::vector<double>>> counts;
  run.at_boundary = [&](int, int64_t worker_steps, Scheme& scheme, Replica&) {
    test::CapturedState state(scheme);
    counts[worker_steps].push_back(state["adam_steps"]);
  };
  bool has_removed = false;
  run.after_step = [&](int, const StepPlan&, Scheme& scheme, Replica&) {
    constexpr size_t kActiveWorkers = 2;
    has_removed = has_removed || scheme.take_series()[kActiveWorkers] == 3;
  };
  const auto result = test::train_toy(4, run);
  EXPECT_TRUE(has_removed);
  for (const auto& [worker_steps, of_workers] : counts)
    for (const auto& count : of_workers)
      EXPECT_EQ(count, of_workers[0]) << worker_steps;
  test::expect_equal_replicas(result);
}

// Workers of different speeds have different counts; all continue from the
// mean.
TEST(AdamSchemes, LeavingAgreesOnOneCount) {
  ToyRun run = switching("10", 0.5);
  run.sync.sync_switch.order = {"esync", "bsp"};
  run.step_s = {1, 2, 4};
  std::vector<std::vector<int64_t>> counts(3);
  run.after_step = [&](int rank, const StepPlan&, Scheme&, Replica& replica) {
    counts[rank].push_back(replica.optimizer->steps());
  };
  const auto result = test::train_toy(3, run);
  test::expect_equal_replicas(result);
  for (int rank = 1; rank < 3; ++rank)
    EXPECT_EQ(counts[rank].back(), counts[0].back());
  // 30 steps of three workers, and 10 of each after the switch.
  EXPECT_EQ(counts[0].back(), 20);
  EXPECT_GT(counts[0].size(), counts[2].size());
}

}  // namespace
}  // namespace syncopate
