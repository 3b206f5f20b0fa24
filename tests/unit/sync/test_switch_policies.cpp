// Sync-Switch's policies with slow links, removed workers that follow the
// others, plateaus, and the messages to the log.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>

#include "optim/moving_average.h"
#include "unit/sync/switch_toy.h"

namespace syncopate {
namespace {

using namespace switch_toy;

// --- links -------------------------------------------------------------------

// A link with a fraction of the others' bandwidth is detected too.
TEST(SyncSwitch, ElasticFindsANarrowLink) {
  ToyRun run = noisy(SwitchPolicy::kElastic, 1, 0.02, 1);
  run.tensors = {8000};
  run.bucket_elems = 8000;
  run.steps = 80;
  // A chunk of 4000 bytes takes 10 ms, but 80 ms from worker 5.
  NetworkCost cost{.bytes_per_s = 400e3};
  cost.link = [](int rank, Time) {
    return NetworkCost::Link{.slowdown = rank == 5 ? 8.0 : 1.0};
  };
  const Seen seen(8, run, cost);
  EXPECT_EQ(seen.series[0][60][Seen::kActive], 7);
  EXPECT_EQ(seen.series[5].size() < seen.series[0].size(), true);
}

// Episodes of greedy end when the link is as fast as the others again, also if
// segments are too short for an answer before the next step.
TEST(SyncSwitch, GreedyFollowsASlowLink) {
  for (const int64_t every : {0, 1, 2}) {
    ToyRun run = noisy(SwitchPolicy::kGreedy, 1 / 3.93, 0.02, 1);
    run.sync.sync_switch.fractions = {0.5, 0.5};
    run.sync.sync_switch.window = 2;
    run.sync.sync_switch.consecutive = 3;
    run.steps = 200;
    run.boundary_every = every;
    NetworkCost cost;
    cost.link = [](int rank, Time now) {
      return NetworkCost::Link{rank == 3 && now > 5 && now < 15 ? 0.03 : 0};
    };
    const Seen seen(8, run, cost);
    EXPECT_EQ(seen.work(0, 0), 800) << every;
    EXPECT_GT(seen.work(0, 1), 100) << every;
    EXPECT_LT(seen.work(0, 1), 500) << every;
    EXPECT_EQ(seen.series[0].back()[Seen::kDetections], 1) << every;
  }
}

// Every step is observed: detections and their times do not depend on the
// positions of boundaries.
TEST(SyncSwitch, BoundariesHideNoStraggler) {
  for (const SwitchPolicy policy :
       {SwitchPolicy::kGreedy, SwitchPolicy::kElastic}) {
    for (const bool is_link : {false, true}) {
      for (const int64_t every : {1, 2, 3, 5, 0}) {
        ToyRun run = with_policy(policy);
        run.boundary_every = every;
        run.step_time = [is_link](int rank, int64_t) {
          return rank == 2 && !is_link ? 3.0 : 1.0;
        };
        NetworkCost cost{.latency_s = 1e-3};
        cost.link = [is_link](int rank, Time) {
          return NetworkCost::Link{rank == 2 && is_link ? 0.3 : 0};
        };
        const Seen seen(4, run, cost);
        // Three steps in a row are enough; a segment may have to end first.
        const auto& row = seen.series[0][9];
        EXPECT_EQ(row[Seen::kDetections], 1)
            << name_of(policy) << is_link << every;
        EXPECT_EQ(row[Seen::kAtWork], policy == SwitchPolicy::kGreedy ? 1 : 0)
            << every;
        EXPECT_EQ(row[Seen::kActive], policy == SwitchPolicy::kElastic ? 3 : 4)
            << every;
      }
    }
  }
}

// Removing a worker keeps the records of the others. Worker 2 is slow in all
// windows, worker 5 in all but the first: each is removed after its own five
// successive slow windows of 4 steps, regardless of the other.
TEST(SyncSwitch, ElasticFindsASecondStragglerByItsOwnWindows) {
  ToyRun run = switching({"10"}, {0.9, 0.1});
  run.sync.sync_switch.policy = SwitchPolicy::kElastic;
  run.sync.sync_switch.window = 4;
  run.sync.sync_switch.consecutive = 5;
  run.steps = 80;
  run.step_time = [](int rank, int64_t step) {
    return rank == 2 ? 3.0 : rank == 5 && step > 4 ? 2.0 : 1.0;
  };
  const Seen seen(8, run);
  const auto& rows = seen.series[0];
  const auto steps_before = [&](double active) {
    const auto has_so_many = [&](const std::vector<double>& row) {
      return row[Seen::kActive] == active;
    };
    return std::find_if(rows.begin(), rows.end(), has_so_many) - rows.begin();
  };
  // A decision takes effect a fixed number of steps later.
  EXPECT_GE(steps_before(7), 5 * 4);
  EXPECT_LE(steps_before(7), 5 * 4 + 3);
  EXPECT_EQ(steps_before(6), steps_before(7) + 4);
  EXPECT_EQ(rows[40][Seen::kDetections], 2);
}

TEST(SyncSwitch, AtLeastHalfOfTheWorkersStay) {
  for (const int workers : {3, 4, 5, 8}) {
    ToyRun run = switching({"10"}, {0.9, 0.1});
    run.sync.sync_switch.policy = SwitchPolicy::kElastic;
    run.sync.sync_switch.window = run.sync.sync_switch.consecutive = 1;
    run.sync.sync_switch.threshold = 0.1;
    run.steps = 60;
    // Each worker is slower than the previous one, however few are left.
    run.step_time = [](int rank, int64_t) { return std::pow(2, rank); };
    const Seen seen(workers, run);
    double fewest = workers;
    for (const auto& row : seen.series[0])
      fewest = std::min(fewest, row[Seen::kActive]);
    EXPECT_EQ(fewest, (workers + 1) / 2) << workers;
  }
}

// A removed worker passes every step at the same time as the others and reports
// the same facts about the run.
TEST(SyncSwitch, RemovedWorkersFollow) {
  for (const int slow : {0, 2}) {
    ToyRun run = with_policy(SwitchPolicy::kElastic);
    run.sync.sync_switch.lr_rule = LrRule::kLinear;
    run.step_time = [slow](int rank, int64_t) { return rank == slow ? 3 : 1; };
    struct Row {
      int64_t worker_steps;
      double rate, clock;
      std::vector<double> series;
    };
    std::vector<Row> own, followed;
    const int other = 3;
    run.after_step = [&](int rank, const StepPlan& plan, Scheme& scheme,
                         Replica&) {
      if (rank == other)
        own.push_back({plan.worker_steps, plan.rate, 0, scheme.take_series()});
    };
    run.after_idle = [&](int rank, const StepPlan& plan, Scheme& scheme) {
      EXPECT_EQ(rank, slow);
      followed.push_back(
          {plan.worker_steps, plan.rate, 0, scheme.take_series()});
    };
    test::train_toy(4, run);
    ASSERT_GT(followed.size(), 10u);
    size_t at = 0;
    for (const Row& row : followed) {
      while (at < own.size() && own[at].worker_steps != row.worker_steps) ++at;
      ASSERT_LT(at, own.size());
      EXPECT_EQ(row.rate, own[at].rate);
      EXPECT_EQ(row.series, own[at].series);
      EXPECT_EQ(row.series[Seen::kActive], 3);
    }
  }
}

// Where workers meet, a removed one holds the model of the others, so that
// means over all are means over those who stayed. The others keep what is their
// own: with bsp.batchnorm = local, BatchNorm's statistics.
TEST(SyncSwitch, RemovedWorkersHoldTheMeanOfTheOthers) {
  for (const Statistics batchnorm :
       {Statistics::kLocal, Statistics::kAveraged}) {
    constexpr int kWorkers = 4, kSlow = 2;
    ToyRun run = with_policy(SwitchPolicy::kElastic);
    run.sync.bsp.batchnorm = batchnorm;
    run.boundary_every = 4;
    run.step_time = [](int rank, int64_t) { return rank == kSlow ? 3 : 1; };
    std::vector<std::unique_ptr<test::TestContext>> contexts(kWorkers);
    std::vector<std::unique_ptr<MovingAverage>> averages(kWorkers);
    struct Held {
      std::vector<float> parameters, buffers, average, average_buffers;
    };
    std::map<int64_t, std::vector<Held>> without_one;  // by worker_steps, rank
    const auto values = [](const DeviceVector<float>& range) {
      OnHost host(range);
      return std::vector(host.values().begin(), host.values().end());
    };
    run.at_boundary = [&](int rank, int64_t worker_steps, Scheme& scheme,
                          Replica& replica) {
      if (!averages[rank]) {
        contexts[rank] = std::make_unique<test::TestContext>(1);
        averages[rank] = std::make_unique<MovingAverage>(
            contexts[rank]->context, replica.parameters.size(),
            replica.buffers.size(), 0.5, 1, 0);
        for (auto* range :
             {&averages[rank]->parameters(), &averages[rank]->buffers()})
          range->assign(std::vector(range->size(), 10.0f * rank * rank));
        replica.average = averages[rank].get();
      }
      if (scheme.take_series()[Seen::kActive] != 3) return;
      auto& held = without_one[worker_steps];
      held.resize(kWorkers);
      held[rank] = {values(replica.parameters.write()), values(replica.buffers),
                    values(averages[rank]->parameters()),
                    values(averages[rank]->buffers())};
    };
    test::train_toy(kWorkers, run);
    // The worker is removed within the segment that ends at the first of these.
    EXPECT_GE(without_one.size(), 2u);
    for (const auto& [worker_steps, held] : without_one) {
      SCOPED_TRACE(worker_steps);
      const float first = held[0].buffers[0];
      if (batchnorm == Statistics::kLocal) {
        // rank + 0.5 * step of each
        EXPECT_EQ(held[1].buffers[0], first + 1);
        EXPECT_EQ(held[3].buffers[0], first + 3);
        EXPECT_NEAR(held[kSlow].buffers[0], first + 4.0f / 3, 1e-5);
      }
      for (int rank = 0; rank < kWorkers; ++rank) {
        EXPECT_EQ(held[rank].parameters, held[0].parameters);
        if (batchnorm == Statistics::kAveraged) {
          EXPECT_EQ(held[rank].buffers, held[0].buffers);
        }
        const float own = rank == kSlow ? 100.0f / 3 : 10.0f * rank * rank;
        for (const auto* range :
             {&held[rank].average, &held[rank].average_buffers})
          for (const float value : *range) EXPECT_NEAR(value, own, 1e-4);
      }
    }
  }
}

// The mean of gradients that are all 1 is 1, whoever brings how many samples.
TEST(SyncSwitch, TheMeanIsOverTheSamplesOfThoseThatStay) {
  constexpr int kSlow = 2;
  ToyRun run = with_policy(SwitchPolicy::kElastic);
  run.optimizer.momentum = 0;
  run.batch_weight = {1.2, 1.2, 0.4, 1.2};
  run.gradient = [](int, int64_t, std::span<const float>, std::span<float> g) {
    std::ranges::fill(g, 1.0f);
  };
  run.step_time = [](int rank, int64_t) { return rank == kSlow ? 3 : 1; };
  std::map<double, std::vector<float>> seen;  // by active workers, in bsp
  run.after_step = [&](int rank, const StepPlan&, Scheme& scheme,
                       Replica& replica) {
    if (rank != 0) return;
    const std::vector<double> series = scheme.take_series();
    if (series[Seen::kPhase] > 0) return;
    OnHost x(replica.parameters.write());
    seen[series[Seen::kActive]].push_back(x.values()[0]);
  };
  test::train_toy(4, run);
  ASSERT_GT(seen[3].size(), 5u);
  for (const auto& [active, values] : seen)
    for (size_t i = 1; i < values.size(); ++i)
      EXPECT_NEAR(values[i] - values[i - 1], -run.optimizer.lr, 1e-6) << active;
}

// --- plateau -----------------------------------------------------------------

TEST(SyncSwitch, APlateauEndsThePhase) {
  for (const Plateau kind : {Plateau::kEvalLoss, Plateau::kEvalMetric}) {
    for (const int64_t restart_at : {0, 8, 12, 16, 20}) {
      ToyRun run = switching({"10"}, {});
      run.sync.sync_switch.plateau = kind;
      run.sync.sync_switch.patience = 2;
      run.sync.sync_switch.min_change = 0.1;
      run.steps = 40;
      run.boundary_every = 4;
      run.restart_at = restart_at;
      // Improvements: 0.3 at the 2nd evaluation, 0.05 at the 3rd, 0.09 over the
      // best at the 4th, where the phase ends after 16 steps.
      const std::vector<double> metric = {0.2, 0.5, 0.55, 0.59, 0.9,
                                          0.9, 0.9, 0.9,  0.9,  0.9};
      run.at_boundary = [&](int, int64_t worker_steps, Scheme& scheme,
                            Replica&) {
        const double value = metric[worker_steps / 16 - 1];
        for (int again = 0; again < 3; ++again)  // the model is the same
          if (kind == Plateau::kEvalLoss)
            scheme.evaluated(1 - value, 0);
          else
            scheme.evaluated(5, value);
      };
      const Seen seen(4, run);
      EXPECT_EQ(seen.work(0, 0), 64) << name_of(kind) << restart_at;
      EXPECT_EQ(seen.work(1, 1), 96) << name_of(kind) << restart_at;
      EXPECT_EQ(test::sum_of(seen.result.steps), 160);
    }
  }
}

// Fractions stay the latest ends of phases.
TEST(SyncSwitch, WithoutAPlateauPhasesEndAsTheirFractionsSay) {
  ToyRun run = switching({"10"}, {0.5, 0.5});
  run.sync.sync_switch.plateau = Plateau::kEvalMetric;
  run.sync.sync_switch.patience = 1;
  run.steps = 20;
  run.boundary_every = 2;
  run.at_boundary = [](int, int64_t worker_steps, Scheme& scheme, Replica&) {
    scheme.evaluated(0, static_cast<double>(worker_steps));
  };
  EXPECT_EQ(Seen(4, run).work(0, 0), 40);
  run.sync.sync_switch.fractions = {};
  EXPECT_EQ(Seen(4, run).work(0, 0), 80);
}

TEST(SyncSwitch, SaysWhatItDoes) {
  std::vector<std::string> notes;
  const auto collect = [&](ToyRun run) {
    notes.clear();
    run.after_step = [&](int rank, const StepPlan&, Scheme& scheme, Replica&) {
      for (std::string& note : scheme.take_notes())
        if (rank == 0) notes.push_back(std::move(note));
    };
    test::train_toy(4, run);
  };
  collect(with_policy(SwitchPolicy::kFixed));
  EXPECT_EQ(notes, std::vector<std::string>{"switch    step 20: phase 2 of 2, "
                                            "asp"});
  collect(with_policy(SwitchPolicy::kGreedy));
  ASSERT_EQ(notes.size(), 3u);
  EXPECT_EQ(notes[0],
            "switch    step 9: phase 1 of 2, asp while worker 2 is slow");
  EXPECT_TRUE(notes[1].ends_with(": phase 1 of 2, bsp")) << notes[1];
  EXPECT_TRUE(notes[2].ends_with(": phase 2 of 2, asp")) << notes[2];
  collect(with_policy(SwitchPolicy::kElastic));
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_EQ(notes[0], "switch    step 9: phase 1 of 2, bsp without worker 2");
}

}  // namespace
}  // namespace syncopate
