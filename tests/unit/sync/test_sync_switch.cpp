// Sync-Switch: each phase behaves like its scheme, all state is carried over,
// and policies react to step times.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "unit/sync/reference.h"
#include "unit/sync/switch_toy.h"

namespace syncopate {
namespace {

using namespace switch_toy;

TEST(SyncSwitch, OnePhaseIsItsScheme) {
  for (const std::string order : {"1", "0", "esync", "10"}) {
    const std::string scheme = order == "0"       ? "asp"
                               : order == "esync" ? "esync"
                                                  : "bsp";
    for (const int workers : {1, 2, 3, 4, 6, 8, 9}) {
      ToyRun run = switching({order}, {});
      if (order == "10") run.sync.sync_switch.fractions = {1, 0};
      run.optimizer.momentum = 0.9;
      run.optimizer.lr = 0.02;
      run.boundary_every = 4;
      run.step_time = [](int rank, int64_t step) {
        return 1 + 0.3 * ((rank * 5 + step) % 7);
      };
      const NetworkCost cost{.latency_s = 0.1};
      const auto switched = test::train_toy(workers, run, cost);
      const auto alone = test::train_toy(workers, plain(run, scheme), cost);
      EXPECT_EQ(switched.parameters, alone.parameters) << order << workers;
      EXPECT_EQ(switched.buffers, alone.buffers) << order << workers;
      EXPECT_EQ(switched.steps, alone.steps) << order << workers;
      EXPECT_EQ(switched.clock, alone.clock) << order << workers;
      EXPECT_EQ(switched.payload_bytes, alone.payload_bytes) << order;
    }
  }
}

TEST(SyncSwitch, KeepsTheBudget) {
  for (const std::string order : {"10", "01", "101", "0110"}) {
    for (const int workers : {1, 2, 3, 4, 6, 8, 9}) {
      const std::vector<double> fractions(order.size(), 1.0 / order.size());
      ToyRun run = switching({order}, fractions);
      run.steps = 12;
      run.boundary_every = 5;
      run.step_time = [](int rank, int64_t step) {
        return 0.5 + (rank * 3 + step * 5) % 11;
      };
      const Seen seen(workers, run);
      EXPECT_EQ(test::sum_of(seen.result.steps), 12 * workers);
      const auto share = static_cast<int64_t>(12 * workers / order.size());
      for (size_t i = 0; i < order.size(); ++i) {
        const auto phase = static_cast<double>(i);
        EXPECT_EQ(seen.work(phase, phase), share) << order << " " << workers;
      }
      for (int rank = 0; rank < workers; ++rank) {
        const auto& plans = seen.plans[rank];
        for (size_t i = 0; i < plans.size(); ++i)
          EXPECT_EQ(plans[i].step, static_cast<int64_t>(i));
      }
    }
  }
}

// The published convention of steps: 3 of bsp with 4 workers, then 12 of asp.
TEST(SyncSwitch, TrainStepsEndPhases) {
  ToyRun run = switching({"10"}, {});
  run.steps = 6;
  run.sync.sync_switch.train_steps = {3, 15};
  const Seen seen(4, run);
  EXPECT_EQ(seen.work(0, 0), 12);
  EXPECT_EQ(seen.work(1, 1), 12);
}

// With one worker all schemes are sequential SGD, so a switch must not change
// anything, including momentum.
TEST(SyncSwitch, CarriesMomentumOver) {
  for (const std::string order : {"10", "01", "101", "010"}) {
    ToyRun run = switching(
        {order}, std::vector<double>(order.size(), 1.0 / order.size()));
    run.steps = 12;
    run.optimizer.momentum = 0.9;
    run.optimizer.nesterov = true;
    run.optimizer.weight_decay = 0.01;
    run.optimizer.lr = 0.05;
    EXPECT_EQ(test::train_toy(1, run).parameters,
              test::train_toy(1, plain(run, "bsp")).parameters)
        << order;
  }
}

// With equal gradients, N steps of asp equal N steps of one worker.
TEST(SyncSwitch, CarriesMomentumOfAllWorkersOver) {
  const int workers = 3;
  ToyRun run = switching({"101"}, {1.0 / 3, 1.0 / 3, 1.0 / 3});
  run.steps = 6;
  run.optimizer.momentum = 0.5;
  run.num_buffers = 0;
  run.gradient = [](int, int64_t, std::span<const float>, std::span<float> g) {
    std::fill(g.begin(), g.end(), 1);
  };
  test::Matrix x = test::start_of(run, workers), m = test::zeros_like(x);
  for (int step = 0; step < 2 + 2 * workers + 2; ++step)
    test::local_step(run, step, x, m);
  test::expect_near(test::train_toy(workers, run).parameters, x, 1e-5);
}

TEST(SyncSwitch, RateIsOfAMiniBatch) {
  ToyRun run = switching({"10"}, {0.5, 0.5});
  run.schedule.kind = ScheduleKind::kMultistep;
  run.schedule.milestones = {{.value = 8}};
  for (const LrRule rule : {LrRule::kLinear, LrRule::kT2t, LrRule::kNone}) {
    run.sync.sync_switch.lr_rule = rule;
    // Of four workers: T2TModel.optimize divides by the root of those that run
    // asynchronously.
    const double of_bsp = rule == LrRule::kNone ? 1 : 4;
    const double of_asp = rule == LrRule::kT2t ? 0.5 : 1;
    const Seen seen(4, run);
    for (size_t i = 0; i < seen.plans[1].size(); ++i) {
      const StepPlan& plan = seen.plans[1][i];
      const bool is_bsp = seen.series[1][i][Seen::kPhase] == 0;
      EXPECT_DOUBLE_EQ(plan.rate, (plan.worker_steps < 32 ? 0.1 : 0.01) *
                                      (is_bsp ? of_bsp : of_asp));
      EXPECT_EQ(is_bsp, plan.worker_steps < 20);
    }
  }
  // The optimizer applies this rate.
  run.sync.sync_switch.lr_rule = LrRule::kLinear;
  run.sync.sync_switch.order = {"1"};
  run.sync.sync_switch.fractions = {};
  ToyRun scaled = plain(run, "bsp");
  scaled.optimizer.lr = 0.4;
  test::expect_near(test::train_toy(4, run).parameters,
                    test::train_toy(4, scaled).parameters, 1e-6);
}

TEST(SyncSwitch, MomentumRulesActAfterTheSwitch) {
  ToyRun run = switching({"10"}, {0.5, 0.5});
  run.steps = 16;
  run.optimizer.momentum = 0.8;
  run.optimizer.lr = 0.01;
  run.sync.sync_switch.momentum_ramp = {.value = 6};
  const std::map<MomentumRule, std::vector<double>> factors = {
      // At worker 0's steps 8 to 15, which are 4 worker_steps apart.
      {MomentumRule::kKeep, {1, 1, 1, 1, 1, 1, 1, 1}},
      {MomentumRule::kZero, {0, 0, 0, 0, 0, 0, 0, 0}},
      {MomentumRule::kScaled, {.25, .25, .25, .25, .25, .25, .25, .25}},
      {MomentumRule::kRampLinear, {.25, .25, .5, .5, .75, .75, 1, 1}},
      {MomentumRule::kRampDoubling, {.25, .25, .25, .5, .5, .5, 1, 1}}};
  for (const auto& [rule, expected] : factors) {
    run.sync.sync_switch.momentum_rule = rule;
    const Seen seen(4, run);
    for (size_t i = 0; i < 8; ++i) {
      EXPECT_DOUBLE_EQ(seen.plans[0][i].momentum, 0.8);
      EXPECT_DOUBLE_EQ(seen.plans[0][8 + i].momentum, 0.8 * expected[i])
          << name_of(rule) << " " << i;
    }
  }
}

// A rule counts from the switch to single gradients on, also where further
// phases without averages follow, and after a resume.
TEST(SyncSwitch, MomentumRulesOutlastAPhase) {
  ToyRun run = switching({"100"}, {0.25, 0.25, 0.5});
  run.steps = 16;
  run.optimizer.momentum = 0.8;
  run.optimizer.lr = 0.01;
  run.sync.sync_switch.momentum_ramp = {.value = 12};
  const std::map<MomentumRule, std::vector<double>> factors = {
      {MomentumRule::kZero, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
      {MomentumRule::kScaled,
       {.25, .25, .25, .25, .25, .25, .25, .25, .25, .25, .25, .25}},
      {MomentumRule::kRampLinear,
       {.25, .25, .25, .25, .5, .5, .5, .5, .75, .75, .75, .75}}};
  for (const auto& [rule, expected] : factors)
    for (const int64_t restart_at : {0, 12}) {
      run.sync.sync_switch.momentum_rule = rule;
      run.boundary_every = restart_at == 0 ? 0 : 4;
      run.restart_at = restart_at;
      const Seen seen(4, run);
      const auto& plans = seen.plans[0];
      for (size_t i = 0; i < 4; ++i)
        EXPECT_DOUBLE_EQ(plans[plans.size() - 4 + i].momentum,
                         0.8 * expected[8 + i])
            << name_of(rule) << " " << i << " " << restart_at;
      if (restart_at != 0) continue;
      for (size_t i = 0; i < 12; ++i)
        EXPECT_DOUBLE_EQ(plans[4 + i].momentum, 0.8 * expected[i])
            << name_of(rule) << " " << i;
    }
}

// Each phase may have its own options, including those of the optimizer.
TEST(SyncSwitch, PhasesHaveTheirOwnOptions) {
  ToyRun run = switching({"11"}, {0.5, 0.5});
  run.optimizer.momentum = 0.9;
  run.phase_sync = {run.sync, run.sync};
  run.phase_optimizer = {run.optimizer, run.optimizer};
  run.phase_optimizer[1].lr = 0.01;
  run.phase_optimizer[1].weight_decay = 0.5;
  const auto result = test::train_toy(1, run);
  test::Matrix x = test::start_of(run, 1), m = test::zeros_like(x);
  for (int64_t step = 0; step < 10; ++step) {
    const OptimizerOptions& phase = run.phase_optimizer[step < 5 ? 0 : 1];
    const test::Matrix g =
        test::sum(test::gradients_at(run, step, x), phase.weight_decay, x);
    m = test::sum(g, 0.9, m);
    x = test::sum(x, -phase.lr, m);
  }
  test::expect_near(result.parameters, x, 1e-5);
}

// The mean is over all samples if workers' batches differ in size.
TEST(SyncSwitch, WeighsUnlikeBatches) {
  ToyRun run = switching({"1"}, {});
  run.steps = 1;
  run.optimizer.lr = 1;
  run.start = [](int, int64_t) { return 0.0f; };
  run.batch_weight = {1.5, 0.5};
  run.gradient = [](int rank, int64_t, std::span<const float>,
                    std::span<float> g) {
    std::fill(g.begin(), g.end(), rank == 0 ? 1.0f : 3.0f);
  };
  const auto result = test::train_toy(2, run);
  for (const double x : result.parameters[1])
    EXPECT_NEAR(x, -(1.5 * 1 + 0.5 * 3) / 2, 1e-6);
}

// What error feedback has not sent by the end of its phase is applied then:
// with constant gradients, all schemes that average them come to the same
// model.
TEST(SyncSwitch, AppliesWhatErrorFeedbackHolds) {
  for (const char* scheme : {"ef_sign_sgd", "dgc", "power_sgd"})
    for (const LrRule rule : {LrRule::kNone, LrRule::kLinear}) {
      ToyRun run = switching({scheme, "bsp"}, {0.5, 0.5});
      run.sync.sync_switch.lr_rule = rule;
      run.steps = 8;
      run.sync.compress = {.kind = "top_k", .ratio = 0.8};
      run.sync.dgc.warmup_ratios = {};
      run.sync.power_sgd.rank = 1;
      run.shapes = {Shape{4, 3}, Shape{5}};
      run.gradient = [](int rank, int64_t, std::span<const float>,
                        std::span<float> g) {
        for (size_t i = 0; i < g.size(); ++i)
          g[i] = 0.1f * static_cast<float>(i + 3 * rank);
      };
      ToyRun bsp = plain(run, "bsp");
      if (rule == LrRule::kLinear) bsp.optimizer.lr *= 3;
      test::expect_near(test::train_toy(3, run).parameters,
                        test::train_toy(3, bsp).parameters, 1e-5);
    }
}

// dgc sends as much in the four steps of its phase as in the first four steps
// of a run, and local_sgd averages gradients in the first two steps of its
// phase.
TEST(SyncSwitch, InitialPhasesBeginAtTheSwitch) {
  ToyRun run = switching({"bsp", "dgc"}, {0.5, 0.5});
  run.steps = 8;
  run.tensors = {400};
  run.num_buffers = 0;  // which the switch averages
  run.sync.compress = {.kind = "top_k", .ratio = 0.99};
  run.sync.dgc.warmup_ratios = {0.5, 0.9};
  run.sync.dgc.warmup = {4, false};
  ToyRun half = run;
  half.steps = 4;
  const auto bytes = [](const ToyRun& of) {
    return test::train_toy(2, of).payload_bytes[0];
  };
  EXPECT_EQ(bytes(run), bytes(plain(half, "bsp")) + bytes(plain(half, "dgc")));

  run = switching({"bsp", "local_sgd"}, {0.5, 0.5});
  run.steps = 8;
  run.sync.local_sgd.steps = 4;
  run.sync.local_sgd.start = {2, false};
  std::vector<std::vector<float>> first(2);  // by rank and step
  run.after_step = [&](int rank, const StepPlan&, Scheme&, Replica& replica) {
    OnHost x(replica.parameters.write());
    first[rank].push_back(x.values()[0]);
  };
  test::train_toy(2, run);
  for (size_t step = 0; step < 6; ++step)
    EXPECT_EQ(first[0][step], first[1][step]) << step;
  EXPECT_NE(first[0][6], first[1][6]);
}

// --- policies ----------------------------------------------------------------

TEST(SyncSwitch, GreedyGoesToAspAndBack) {
  ToyRun run = with_policy(SwitchPolicy::kGreedy);
  const Seen seen(4, run);
  EXPECT_EQ(test::sum_of(seen.result.steps), 160);
  // The quota of bsp does not change; the episode is part of asp's work.
  EXPECT_EQ(seen.work(0, 0), 80);
  EXPECT_EQ(seen.work(0, 1) + seen.work(1, 1), 80);
  // The duration of step 3 is agreed on during step 4. Three slow steps in a
  // row are known before step 7; all ask for an end before step 8 and get it
  // after it.
  const auto& rows = seen.series[2];
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(rows[i][Seen::kAtWork], 0) << i;
  EXPECT_EQ(rows[9][Seen::kAtWork], 1);
  // Steps 11, 12, 13 at full speed, and bsp goes on.
  size_t back = 9;
  while (rows[back][Seen::kAtWork] == 1) ++back;
  EXPECT_EQ(back, 14u);
  EXPECT_EQ(rows[back][Seen::kPhase], 0);
  EXPECT_EQ(rows.back()[Seen::kDetections], 1);
  // During the episode no worker waits for worker 2.
  EXPECT_GT(seen.result.steps[0], seen.result.steps[2]);
}

// A change that is due at a boundary is made before another step.
TEST(SyncSwitch, ChangesAtOnceAfterABoundary) {
  for (const SwitchPolicy policy :
       {SwitchPolicy::kGreedy, SwitchPolicy::kElastic}) {
    ToyRun run = with_policy(policy);
    run.boundary_every = 8;  // after three detections in a row, before they act
    const Seen seen(4, run);
    EXPECT_EQ(seen.series[0][7][Seen::kAtWork], 0);
    EXPECT_EQ(seen.series[0][7][Seen::kActive], 4);
    EXPECT_EQ(seen.series[0][8][Seen::kAtWork],
              policy == SwitchPolicy::kGreedy ? 1 : 0);
    EXPECT_EQ(seen.series[0][8][Seen::kActive],
              policy == SwitchPolicy::kElastic ? 3 : 4);
  }
}

// A boundary where a phase ends takes no time away from the change: workers
// wait for each other as they do without it.
TEST(SyncSwitch, BoundaryAtAChangeKeepsItsTime) {
  for (const char* from : {"bsp", "asp", "esync"}) {
    for (const char* to : {"bsp", "asp", "esync"}) {
      ToyRun run = switching({from, to}, {0.5, 0.5});
      run.steps = 8;
      run.boundary_every = 4;
      run.step_time = [](int rank, int64_t step) {
        return 1 + 0.1 * static_cast<double>((3 * rank + 2 * step) % 7);
      };
      SCOPED_TRACE(fmt::format("from {} to {}", from, to));
      test::expect_boundaries_change_nothing(4, run, {4});
    }
  }
}

TEST(SyncSwitch, GreedyTakesNoMoreThanAspHas) {
  ToyRun run = with_policy(SwitchPolicy::kGreedy);
  run.sync.sync_switch.fractions = {0.9, 0.1};
  run.step_time = [](int rank, int64_t) { return rank == 2 ? 3.0 : 1.0; };
  const Seen seen(4, run);
  EXPECT_EQ(test::sum_of(seen.result.steps), 160);
  EXPECT_EQ(seen.work(0, 0), 144);
  EXPECT_EQ(seen.work(0, 1), 16);
  EXPECT_EQ(seen.work(1, 1), 0);
}

TEST(SyncSwitch, ElasticGoesOnWithoutTheStraggler) {
  ToyRun run = with_policy(SwitchPolicy::kElastic);
  const Seen seen(4, run);
  EXPECT_EQ(test::sum_of(seen.result.steps), 160);
  // 9 steps of all four, and the rest of 80 by three.
  const auto& rows = seen.series[0];
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(rows[i][Seen::kActive], 4);
  EXPECT_EQ(rows[9][Seen::kActive], 3);
  size_t asp = 9;
  while (rows[asp][Seen::kPhase] == 0) ++asp;
  EXPECT_EQ(static_cast<int64_t>(asp), 9 + (80 - 36 + 2) / 3);
  EXPECT_EQ(rows[asp][Seen::kActive], 4);
  // Worker 2 takes nine steps of bsp and returns for asp.
  const auto& removed = seen.series[2];
  EXPECT_EQ(removed[8][Seen::kPhase], 0);
  EXPECT_EQ(removed[9][Seen::kPhase], 1);
  test::expect_equal_replicas(seen.result);
}

// Three workers take 45 worker steps although 44 were left: asp has one less.
TEST(SyncSwitch, NextPhaseHasLessByWhatWasTooMuch) {
  ToyRun run = with_policy(SwitchPolicy::kElastic);
  run.sync.sync_switch.order = {"101"};
  run.sync.sync_switch.fractions = {0.5, 0.25, 0.25};
  const Seen seen(4, run);
  EXPECT_EQ(seen.work(0, 0), 81);
  EXPECT_EQ(seen.work(1, 1), 39);
  EXPECT_EQ(seen.work(2, 2), 40);
}

TEST(SyncSwitch, ElasticScalesTheRateByThoseThatAreLeft) {
  ToyRun run = with_policy(SwitchPolicy::kElastic);
  run.sync.sync_switch.lr_rule = LrRule::kLinear;
  const Seen seen(4, run);
  EXPECT_DOUBLE_EQ(seen.plans[0][8].rate, 4 * 0.02);
  EXPECT_DOUBLE_EQ(seen.plans[0][9].rate, 3 * 0.02);
  EXPECT_DOUBLE_EQ(seen.plans[0].back().rate, 0.02);
}

// Removed workers, including rank 0, have the others' model at each boundary.
TEST(SyncSwitch, RemovedWorkersHaveTheModel) {
  for (const int slow : {0, 1, 3}) {
    ToyRun run = with_policy(SwitchPolicy::kElastic);
    run.boundary_every = 3;
    run.step_time = [slow](int rank, int64_t) {
      return rank == slow ? 3.0 : 1.0;
    };
    std::map<int64_t, std::vector<std::vector<float>>> models;
    run.at_boundary = [&](int, int64_t worker_steps, Scheme& scheme,
                          Replica& replica) {
      DeviceVector<float> x(replica.buffers.device(), replica.buffers.stream(),
                            replica.parameters.size());
      DeviceVector<float> statistics(x.device(), x.stream(),
                                     replica.buffers.size());
      scheme.evaluation_model(EvalModel::kEach, x, statistics);
      OnHost host(x);
      models[worker_steps].emplace_back(host.values().begin(),
                                        host.values().end());
    };
    const Seen seen(4, run);
    EXPECT_EQ(test::sum_of(seen.result.steps), 160);
    EXPECT_EQ(seen.series[(slow + 1) % 4][15][Seen::kActive], 3);
    for (const auto& [worker_steps, model] : models)
      for (const auto& replica : model)
        EXPECT_EQ(replica, model[0]) << worker_steps;
  }
}

TEST(SyncSwitch, EqualSpeedsChangeNothing) {
  ToyRun run = with_policy(SwitchPolicy::kFixed);
  run.step_time = nullptr;
  const auto fixed = test::train_toy(4, run);
  for (const SwitchPolicy policy :
       {SwitchPolicy::kGreedy, SwitchPolicy::kElastic}) {
    run.sync.sync_switch.policy = policy;
    EXPECT_EQ(test::train_toy(4, run).parameters, fixed.parameters);
  }
}

// Within bsp, asp and an episode, with workers removed, at the end of a phase,
// during a ramp.
TEST(SyncSwitch, GoesOnToTheBit) {
  for (const SwitchPolicy policy :
       {SwitchPolicy::kFixed, SwitchPolicy::kGreedy, SwitchPolicy::kElastic}) {
    for (const int64_t every : {2, 5}) {
      ToyRun run = with_policy(policy);
      run.boundary_every = every;
      run.sync.sync_switch.momentum_rule = MomentumRule::kRampLinear;
      run.sync.sync_switch.momentum_ramp = {.value = 12};
      run.step_time = [](int rank, int64_t step) {
        return step_of_a_straggler(rank, step) + 0.01 * rank;
      };
      std::vector<int64_t> restarts;
      for (int64_t at = every; at < run.steps; at += every)
        restarts.push_back(at);
      test::expect_resumes(4, run, restarts, {.latency_s = 0.05});
    }
  }
}

TEST(SyncSwitch, SaysWhatCannotRun) {
  ToyRun run = switching({"10"}, {0.5, 0.5});
  const auto obstacle = [&] { return test::obstacle_of(run, 4); };
  EXPECT_EQ(obstacle(), "");
  run.optimizer.lr_scale = LrScale::kLinear;
  EXPECT_EQ(obstacle(), "");
  run.sync.sync_switch.lr_rule = LrRule::kLinear;
  EXPECT_EQ(obstacle(),
            "optimizer.lr_scale: linear where sync_switch.lr_rule = linear "
            "scales the rate, expected none");
  run.sync.sync_switch.lr_rule = LrRule::kT2t;
  EXPECT_TRUE(
      obstacle().ends_with("lr_rule = t2t scales the rate, expected "
                           "none"));
  run.sync.sync_switch.order = {"1", "nothing"};
  EXPECT_TRUE(obstacle().starts_with("sync_switch.order: nothing, expected "));
}

}  // namespace
}  // namespace syncopate
