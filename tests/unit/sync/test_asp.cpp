// Asynchronous SGD: no worker waits, every shard applies every push once, and a
// shard computes the published formula.
#include <cmath>

#include "base/file.h"
#include "comm/wire.h"
#include "support/expect_error.h"
#include "unit/sync/reference.h"
#include "unit/sync/server_toy.h"

namespace syncopate {
namespace {

using test::ToyResult;
using test::ToyRun;

ToyRun asp_run() {
  return test::run_of("asp");
}

TEST(Asp, OfOneWorkerIsSequentialSgd) {
  for (const double momentum : {0.0, 0.9})
    for (const bool nesterov : {false, true}) {
      ToyRun run;
      run.optimizer.momentum = momentum;
      run.optimizer.nesterov = nesterov;
      run.optimizer.weight_decay = 0.01;
      run.boundary_every = 4;
      const auto bsp = test::train_toy(1, run);
      run.sync.scheme = "asp";
      EXPECT_EQ(test::train_toy(1, run).parameters, bsp.parameters);
    }
}

TEST(Asp, StepsGoToWhoIsReady) {
  ToyRun run = asp_run();
  run.steps = 25;
  run.step_s = {1, 4};
  const auto result = test::train_toy(2, run);
  EXPECT_EQ(result.steps, (std::vector<int64_t>{40, 10}));
  EXPECT_EQ(result.clock, (std::vector<double>{40, 40}));
}

// A worker's clock advances only with its own steps.
TEST(Asp, NobodyWaits) {
  for (const int workers : {1, 2, 3, 4, 6, 8, 9})
    for (const int64_t boundary_every : {0, 1, 3}) {
      ToyRun run = asp_run();
      run.boundary_every = boundary_every;
      for (int rank = 0; rank < workers; ++rank)
        run.step_s.push_back(1 << (rank % 4));
      const auto result = test::train_toy(workers, run);
      for (int rank = 0; rank < workers; ++rank)
        EXPECT_EQ(result.clock[rank],
                  static_cast<double>(result.steps[rank]) * run.step_s[rank]);
    }
}

// The end of the last step is not prolonged by what an evaluation needs: until
// gather(), replicas hold what they last pulled.
TEST(Asp, OnlyGatherSendsTheModelAtABoundary) {
  constexpr int kWorkers = 3;
  ToyRun run = asp_run();
  run.boundary_every = 4;
  run.step_s = {1, 1.5, 2};
  std::vector<std::vector<float>> pulled(kWorkers);
  run.before_gather = [&](int rank, Replica& replica) {
    const std::span<const float> now = replica.parameters.write();
    pulled[rank].assign(now.begin(), now.end());
  };
  int num_compared = 0;
  run.at_boundary = [&](int rank, int64_t, Scheme&, Replica& replica) {
    const std::span<const float> now = replica.parameters.write();
    if (rank != 0) return;
    EXPECT_NE(pulled[0], std::vector<float>(now.begin(), now.end()));
    ++num_compared;
  };
  test::expect_equal_replicas(test::train_toy(kWorkers, run));
  EXPECT_GT(num_compared, 1);
}

// A single shard in double precision, with pushes in the order of their times,
// `after` this part of each step.
struct Reference {
  std::vector<double> x;
  std::vector<int64_t> staleness;
};
Reference trained_by_formula(const ToyRun& run, int workers, double after) {
  Reference server{.x = test::start_of(run, 1)[0], .staleness = {}};
  std::vector<double>& x = server.x;
  const auto elems = std::ssize(x);
  std::vector<double> m(elems, 0.0), previous = x;
  std::vector<std::vector<double>> pulled(workers, x);
  std::vector<int64_t> seen(workers, 0), step(workers, 0);
  const Schedule schedule(run.schedule, run.optimizer.lr,
                          static_cast<double>(run.steps), run.steps_per_epoch);
  int64_t updates = 0;
  const bool pulls_before_step = run.sync.asp.pull == Pulling::kBeforeStep;
  const auto pull = [&](int rank) {
    pulled[rank] = x;
    seen[rank] = updates;
  };
  const auto begin = [&](int rank) {
    if (pulls_before_step) pull(rank);
  };
  const auto serve = [&](int rank, int64_t ticket) {
    std::vector<float> at(pulled[rank].begin(), pulled[rank].end());
    std::vector<float> gradient(elems);
    test::quadratic_gradient(rank, step[rank]++, at, gradient);
    server.staleness.push_back(updates++ - seen[rank]);
    const double rate = schedule.rate(static_cast<double>(ticket) / workers);
    const OptimizerOptions& opt = run.optimizer;
    for (int64_t i = 0; i < elems; ++i) {
      double g = gradient[i];
      const double before = x[i];
      if (run.sync.asp.compensation == Compensation::kPerWorker)
        g += run.sync.asp.lambda * g * g * (x[i] - pulled[rank][i]);
      if (run.sync.asp.compensation == Compensation::kPerKey)
        g += run.sync.asp.lambda * g * g * (x[i] - previous[i]);
      g += opt.weight_decay * x[i];
      m[i] = opt.momentum * m[i] + g;
      x[i] -= rate * (opt.nesterov ? g + opt.momentum * m[i] : m[i]);
      previous[i] = before;
    }
    if (!pulls_before_step) pull(rank);
  };
  test::in_order_of_arrival(run, after, serve, begin);
  return server;
}

// All shards, each pushed as soon as its part of the gradient is final.
std::vector<double> trained_by_formula(const ToyRun& run, int workers) {
  const int64_t servers = run.sync.asp.servers;
  const int64_t shards = servers > 0 ? servers : workers;
  std::vector<double> x = test::start_of(run, 1)[0];
  const auto elems = std::ssize(x);
  for (int64_t shard = 0; shard < shards; ++shard) {
    const int64_t begin = test::shard_begin(elems, shards, shard);
    const auto whole =
        trained_by_formula(run, workers, test::pushed_after(run, begin)).x;
    std::copy(whole.begin() + begin,
              whole.begin() + test::shard_begin(elems, shards, shard + 1),
              x.begin() + begin);
  }
  return x;
}

class AspPull : public ::testing::TestWithParam<Pulling> {};

// Shared momentum, learning rates by ticket, and delay compensation relative to
// the model that the worker pulled or to the shard's previous value.
TEST_P(AspPull, FollowsTheFormula) {
  for (const Compensation compensation :
       {Compensation::kNone, Compensation::kPerWorker, Compensation::kPerKey})
    for (const double momentum : {0.0, 0.8})
      for (const int64_t servers : {0, 1, 2}) {
        ToyRun run = asp_run();
        run.sync.asp.pull = GetParam();
        run.steps = 12;
        run.step_s = {1, 1.2913, 0.5741, 3.1037};  // no two at one moment
        run.sync.asp.servers = servers;
        run.sync.asp.compensation = compensation;
        run.sync.asp.lambda = 3;
        run.optimizer.momentum = momentum;
        run.optimizer.weight_decay = 0.02;
        run.schedule.kind = ScheduleKind::kMultistep;
        run.schedule.milestones = {{.value = 6}};
        run.schedule.gamma = 0.5;
        const std::vector<double> expected = trained_by_formula(run, 4);
        const auto result = test::train_toy(4, run);
        SCOPED_TRACE(
            fmt::format("{} {} {}", name_of(compensation), momentum, servers));
        test::expect_equal_replicas(result);
        test::expect_near({result.parameters[0]}, {expected}, 1e-5);
      }
}

// The three rules of compensation give different results.
TEST(Asp, CompensationMatters) {
  ToyRun run = asp_run();
  run.step_s = {1, 1.3, 0.57, 3.1};
  run.sync.asp.lambda = 20;
  std::vector<double> last;
  for (const Compensation compensation :
       {Compensation::kNone, Compensation::kPerWorker, Compensation::kPerKey}) {
    run.sync.asp.compensation = compensation;
    const auto x = test::train_toy(4, run).parameters[0];
    double most = 0;
    for (size_t i = 0; i < last.size(); ++i)
      most = std::max(most, std::abs(x[i] - last[i]));
    EXPECT_TRUE(last.empty() || most > 5e-4) << most;
    last = x;
  }
}

TEST_P(AspPull, TellsStaleness) {
  ToyRun run = asp_run();
  run.sync.asp.pull = GetParam();
  run.steps = 20;
  run.step_s = {1, 1.3, 0.57, 3.1};
  // Shard 0 tells it, and gets its pushes last.
  const auto expected = trained_by_formula(run, 4, 1).staleness;
  std::vector<double> histogram(4 * 4 + 1, 0.0);
  double most = 0, sum = 0;
  for (const int64_t staleness : expected) {
    ++histogram[std::min<int64_t>(staleness, 16)];
    most = std::max(most, static_cast<double>(staleness));
    sum += static_cast<double>(staleness);
  }
  std::vector<double> total(histogram.size(), 0.0);
  double found_most = 0, found_sum = 0;
  run.at_boundary = [&](int, int64_t, Scheme& scheme, Replica&) {
    const auto series = scheme.series();
    ASSERT_EQ(series.size(), 3u);
    EXPECT_EQ(series[2].width, std::ssize(histogram));
    const std::vector<double> values = scheme.take_series();
    ASSERT_EQ(values.size(), 2 + histogram.size());
    found_most = std::max(found_most, values[1]);
    double own = 0;
    for (size_t i = 0; i < total.size(); ++i) {
      total[i] += values[2 + i];
      own += values[2 + i];
    }
    found_sum += values[0] * own;
    const auto again = scheme.take_series();
    EXPECT_TRUE(std::isnan(again[0]));
    EXPECT_EQ(again[1], 0);
  };
  test::train_toy(4, run);
  EXPECT_EQ(total, histogram);
  EXPECT_EQ(found_most, most);
  EXPECT_NEAR(found_sum, sum, 1e-9);
}

// A worker sends pushes of all slices but its own, and answers to the pushes of
// others. If they request answers, they do so before the first step of the run
// too.
TEST_P(AspPull, SendsWhatTheFormulaSays) {
  const bool has_requests = GetParam() == Pulling::kBeforeStep;
  for (const int workers : {1, 2, 3, 4, 6, 8, 9})
    for (const int servers : {0, 1, 2})
      for (const Wire wire : {Wire::kF32, Wire::kBf16}) {
        if (servers > workers) continue;
        ToyRun run = asp_run();
        run.sync.asp.pull = GetParam();
        run.sync.asp.servers = servers;
        run.sync.wire = wire;
        run.boundary_every = 3;
        run.step_time = test::uneven(1);
        const auto result = test::train_toy(workers, run);
        const int64_t elems = 48, bytes = run.sync.wire == Wire::kBf16 ? 2 : 4;
        const int shards = servers > 0 ? servers : workers;
        const int64_t all = run.steps * workers;
        for (int rank = 0; rank < workers; ++rank) {
          const int64_t own = rank < shards ? elems * (rank + 1) / shards -
                                                  elems * rank / shards
                                            : 0;
          const int64_t steps = result.steps[rank];
          const int64_t answers =
              all - steps + (has_requests ? workers - 1 : 0);
          EXPECT_EQ(result.payload_bytes[rank],
                    bytes * (steps * (elems - own) + answers * own));
        }
      }
  if (has_requests) return;
  // N equal shards: 2 (N-1)/N of the model per step.
  EXPECT_EQ(test::sum_of(test::train_toy(4, asp_run()).payload_bytes),
            40 * 2 * 4 * 48 * 3 / 4);
}

// Which messages queue behind which may depend on the boundaries, the time of a
// step not.
TEST_P(AspPull, BoundariesTakeNoTime) {
  for (const int servers : {0, 2}) {
    ToyRun run = asp_run();
    run.sync.asp.pull = GetParam();
    run.sync.asp.servers = servers;
    run.steps = 12;
    const NetworkCost cost{.latency_s = 0.02, .bytes_per_s = 4000};
    const auto whole = test::train_toy(4, run, cost);
    const double whole_s = std::ranges::max(whole.clock);
    for (const int64_t every : {1, 3, 6}) {
      SCOPED_TRACE(every);
      run.boundary_every = every;
      for (const int64_t restart_at : {0, 6}) {
        run.restart_at = restart_at;
        const auto parted = test::train_toy(4, run, cost);
        EXPECT_EQ(test::sum_of(parted.payload_bytes),
                  test::sum_of(whole.payload_bytes));
        EXPECT_NEAR(std::ranges::max(parted.clock), whole_s, 0.01 * whole_s);
      }
    }
    run.restart_at = 0;
    run.boundary_every = 0;
  }
}

// The server's link takes 192 bytes, a push or an answer, per second; nothing
// else takes time. On worker 0, the server costs that worker none, which then
// takes most of the steps.
TEST_P(AspPull, AServerApartFavoursNoWorker) {
  ToyRun run = asp_run();
  run.sync.asp.pull = GetParam();
  run.sync.asp.servers = 1;
  run.steps = 20;
  run.step_s.assign(6, 0.01);
  NetworkCost cost;
  cost.has_servers_apart = true;
  cost.server_bytes_per_s = 4 * 48;
  const auto apart = test::train_toy(6, run, cost);
  for (const int64_t steps : apart.steps) EXPECT_NEAR(steps, 20, 1);
  // 120 updates; the last step of a worker ends before its push has arrived.
  EXPECT_NEAR(std::ranges::max(apart.clock), 118, 4);
  const bool has_requests = GetParam() == Pulling::kBeforeStep;
  EXPECT_EQ(test::sum_of(apart.payload_bytes),
            4 * 48 * (2 * 120 + (has_requests ? 6 : 0)));
  const auto on_worker =
      test::train_toy(6, run, {.latency_s = 0, .bytes_per_s = 4 * 48});
  EXPECT_GT(on_worker.steps[0], 60);

  for (const int64_t every : {1, 4, 10})
    for (const int64_t restart_at : {0, 10}) {
      run.boundary_every = every;
      run.restart_at = restart_at;
      const auto parted = test::train_toy(6, run, cost);
      EXPECT_NEAR(std::ranges::max(parted.clock), 118, 4) << every;
      test::expect_equal_replicas(parted);
    }
}

TEST_P(AspPull, LosesNothingAtBoundaries) {
  for (const int workers : {1, 2, 3, 4, 6, 8, 9})
    for (const int64_t servers : {0, 1, 2})
      for (const int64_t every : {0, 1, 3, 7})
        for (const uint64_t seed : {1, 2, 3}) {
          if (servers > workers) continue;
          ToyRun run = test::counting_run("asp", workers);
          run.sync.asp.pull = GetParam();
          run.sync.asp.servers = servers;
          run.boundary_every = every;
          run.step_time = test::uneven(seed);
          // A worker sees all its own updates.
          run.gradient = [](int rank, int64_t step, std::span<const float> x,
                            std::span<float> g) {
            EXPECT_EQ(x[rank], static_cast<float>(step));
            g[rank] = -1;
          };
          run.at_boundary = [](int, int64_t worker_steps, Scheme&,
                               Replica& replica) {
            double updates = 0;
            for (const float x : OnHost(replica.parameters.write()).values())
              updates += static_cast<double>(x);
            EXPECT_EQ(updates, static_cast<double>(worker_steps));
          };
          const NetworkCost cost{.latency_s = seed == 2 ? 0.3 : 0,
                                 .bytes_per_s = seed == 3 ? 100.0 : 0};
          test::expect_all_counted(test::train_toy(workers, run, cost),
                                   run.steps * workers);
        }
}

// With more workers than elements, each shard has at most one element.
TEST(Asp, TakesMoreWorkersThanElements) {
  ToyRun run = asp_run();
  run.tensors = {2};
  run.optimizer.momentum = 0.5;
  const auto result = test::train_toy(5, run);
  test::expect_equal_replicas(result);
  EXPECT_NE(result.parameters[0][1], static_cast<double>(run.start(0, 1)));
}

TEST_P(AspPull, GoesOnToTheBit) {
  for (const int workers : {1, 2, 3, 4, 6, 8, 9})
    for (const Compensation compensation :
         {Compensation::kNone, Compensation::kPerWorker,
          Compensation::kPerKey}) {
      ToyRun run = asp_run();
      run.sync.asp.pull = GetParam();
      run.sync.asp.compensation = compensation;
      run.sync.asp.lambda = 0.5;
      run.optimizer.lr = 0.01;
      if (workers == 3) run.sync.wire = Wire::kBf16;
      if (workers == 4) run.sync.asp.servers = 3;
      run.optimizer.momentum = 0.9;
      run.boundary_every = 3;
      run.step_time = test::uneven(5);
      const auto straight = test::expect_resumes(
          workers, run, {6}, {.latency_s = 0.2, .bytes_per_s = 1000});
      EXPECT_LT(std::abs(straight.parameters[0][0]), 10);
    }
}

// Worker 0 has the shard and pushes every second. A message to worker 1, or
// from it, takes 3.25 s. After a push, worker 1 begins with what all began with
// and has its answer from 13.75 s. Before a step, its request arrives at 3.25
// s, so that it begins at 6.5 s, and its second one arrives at 20.25 s.
TEST_P(AspPull, IsAnsweredAfterAPushOrARequest) {
  ToyRun run = test::counting_run("asp", 2);
  run.sync.asp.pull = GetParam();
  run.sync.asp.servers = 1;
  run.steps = 15;
  run.step_s = {1, 10.5};
  std::vector<float> seen;
  run.gradient = [&](int rank, int64_t, std::span<const float> x,
                     std::span<float> g) {
    if (rank == 1) seen.push_back(x[0]);
    g[rank] = -1;
  };
  test::train_toy(2, run, {.latency_s = 3.25});
  const bool has_requests = GetParam() == Pulling::kBeforeStep;
  EXPECT_EQ(seen, has_requests ? (std::vector<float>{3, 20})
                               : (std::vector<float>{0, 13}));
}

INSTANTIATE_TEST_SUITE_P(, AspPull, test::kBothPullings, test::name_of_pulling);

// A pull takes half a second in each direction, also across a boundary.
TEST(Asp, WaitsForItsPullsAlsoOverABoundary) {
  for (const int64_t every : {0, 1, 2, 5}) {
    ToyRun run = asp_run();
    run.sync.asp.servers = 1;
    run.boundary_every = every;
    const auto result = test::train_toy(2, run, {.latency_s = 0.5});
    EXPECT_EQ(result.clock[0], static_cast<double>(result.steps[0]));
    EXPECT_EQ(result.clock[1], 2 * static_cast<double>(result.steps[1]) - 1);
  }
}

// A push and its answer take half a second. Worker 0 pushes to worker 1, the
// second half of the range, in the middle of a step, and does not wait; worker
// 1 pushes the first half at the end, and waits as long as the answer takes. If
// gradients are clipped, both push at the end.
TEST(Asp, PushesDuringBackward) {
  for (const double clip_norm : {0.0, 1e9}) {
    ToyRun run = asp_run();
    run.bucket_elems = 24;
    run.optimizer.clip_norm = clip_norm;
    std::vector<SyncTimes> times(2);
    run.after_step = [&](int rank, const StepPlan&, Scheme& scheme, Replica&) {
      times[rank].add(scheme.take_times());
    };
    const auto result = test::train_toy(2, run, {.latency_s = 0.25});
    for (int rank = 0; rank < 2; ++rank) {
      const auto steps = static_cast<double>(result.steps[rank]);
      const double exposed_s = rank == 0 && clip_norm == 0 ? 0 : 0.5;
      EXPECT_EQ(result.clock[rank], steps + exposed_s * (steps - 1));
      EXPECT_EQ(times[rank].exposed_s, exposed_s * (steps - 1));
      EXPECT_EQ(times[rank].overlapped_s, (0.5 - exposed_s) * (steps - 1));
    }
  }
}

// Worker 1 ends its step first, but its pull takes until after worker 0's step.
TEST(Asp, RequestsAnotherStepBeforeThePull) {
  ToyRun run = asp_run();
  run.sync.asp.servers = 1;
  run.steps = 2;
  run.step_s = {1.5, 1};
  std::vector<int> ranks(4, -1);  // by ticket
  run.after_step = [&](int rank, const StepPlan& plan, Scheme&, Replica&) {
    ranks[plan.worker_steps] = rank;
  };
  test::train_toy(2, run, {.latency_s = 0.5});
  EXPECT_EQ(ranks, (std::vector<int>{0, 1, 1, 0}));
}

// Momentum moves to the shards and back without loss.
TEST(Asp, HandsOverTheOptimizer) {
  ToyRun run = asp_run();
  run.optimizer.momentum = 0.9;
  run.boundary_every = 5;
  const auto straight = test::train_toy(3, run);
  std::vector<std::vector<float>> momenta;
  run.at_boundary = [&](int, int64_t, Scheme& scheme, Replica& replica) {
    EXPECT_EQ(replica.optimizer, nullptr);
    scheme.leave(0);
    ASSERT_NE(replica.optimizer, nullptr);
    const auto m = replica.optimizer->state()[0];
    momenta.emplace_back(m.begin(), m.end());
    scheme.enter();
  };
  EXPECT_EQ(test::train_toy(3, run).parameters, straight.parameters);
  ASSERT_EQ(momenta.size(), 6u);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(momenta[rank], momenta[0]);
  for (const float m : momenta[0]) EXPECT_NE(m, 0);
}

TEST(Asp, TakesOverMomentum) {
  ToyRun run = asp_run();
  run.optimizer.momentum = 0.9;
  run.at_boundary = [&](int, int64_t, Scheme& scheme, Replica& replica) {
    const auto momentum = [&] {
      return OnHost(replica.buffers.device(), replica.buffers.stream(),
                    replica.optimizer->state()[0]);
    };
    scheme.leave(0);
    {
      OnHost m = momentum();
      for (size_t i = 0; i < m.values().size(); ++i)
        m.values()[i] = static_cast<float>(i);
      m.put_back();
    }
    scheme.enter();
    scheme.leave(0);
    OnHost m = momentum();
    for (size_t i = 0; i < m.values().size(); ++i)
      EXPECT_EQ(m.values()[i], static_cast<float>(i));
    scheme.enter();
  };
  test::train_toy(4, run);
}

TEST(Asp, ClipsEachPush) {
  ToyRun run = asp_run();
  run.steps = 1;
  run.optimizer.lr = 1;
  run.optimizer.clip_norm = 1;
  run.start = [](int, int64_t) { return 0.0f; };
  run.gradient = [](int rank, int64_t, std::span<const float>,
                    std::span<float> g) { g[0] = rank == 0 ? 10.0f : -0.5f; };
  EXPECT_NEAR(test::train_toy(2, run).parameters[0][0], -0.5, 1e-4);
}

// Workers compute at rounded values; the shards keep full precision.
TEST(Asp, TravelsInBf16) {
  ToyRun run = asp_run();
  run.optimizer.lr = 0.01;
  run.start = [](int, int64_t i) { return from_bf16(bf16_of(0.1f * i)); };
  const auto full = test::train_toy(3, run);
  run.gradient = [](int rank, int64_t step, std::span<const float> x,
                    std::span<float> g) {
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_EQ(x[i], from_bf16(bf16_of(x[i])));
    test::quadratic_gradient(rank, step, x, g);
  };
  run.sync.wire = Wire::kBf16;
  const auto result = test::train_toy(3, run);
  int64_t kept = 0;
  for (size_t i = 0; i < full.parameters[0].size(); ++i) {
    const auto x = static_cast<float>(result.parameters[0][i]);
    kept += x != from_bf16(bf16_of(x));
    // bf16 resolves 2^-9, of values up to 5; gradients of lr 0.01 and 10 steps.
    EXPECT_NEAR(result.parameters[0][i], full.parameters[0][i], 0.02);
  }
  EXPECT_GT(kept, 20);
}

TEST(Asp, ReplaysARecordedOrder) {
  const test::OwnFolder folder;
  for (const int workers : {1, 2, 3, 4, 6}) {
    ToyRun run = asp_run();
    run.optimizer.momentum = 0.9;
    run.sync.asp.compensation = Compensation::kPerWorker;
    run.sync.asp.record = true;
    run.boundary_every = 5;
    run.step_time = test::uneven(9);
    const auto recorded = test::train_toy(workers, run);
    const std::string digest = digest_of_file(folder / "order.h5");
    // A resumed run has the complete record.
    run.restart_at = 5;
    EXPECT_EQ(test::train_toy(workers, run).parameters, recorded.parameters);
    EXPECT_EQ(digest_of_file(folder / "order.h5"), digest);

    run.sync.asp.record = false;
    run.step_time = test::uneven(10);
    const auto other = test::train_toy(workers, run);
    EXPECT_TRUE(workers == 1 || other.parameters != recorded.parameters);
    run.sync.asp.replay = folder / "order.h5";
    for (const int64_t restart_at : {0, 5}) {
      run.restart_at = restart_at;
      const auto replayed = test::train_toy(workers, run);
      EXPECT_EQ(replayed.parameters, recorded.parameters);
      EXPECT_EQ(replayed.steps, recorded.steps);
    }
  }
}

// A replayed run stops only where the recorded one had a boundary, such as one
// made by a request to stop: between them, a push may be held back for one that
// would never come.
TEST(Asp, StopsWhileItReplays) {
  const test::OwnFolder folder;
  for (const int64_t every : {0, 5}) {
    ToyRun run = asp_run();
    run.steps = 20;
    run.boundary_every = every;
    run.sync.asp.record = true;
    run.step_time = test::uneven(9);
    run.asks_to_stop = [](int rank, int64_t steps) {
      return rank == 1 && steps % 3 == 0;
    };
    std::vector<int64_t> recorded_at, replayed_at;
    const auto note_in = [](std::vector<int64_t>& boundaries) {
      return [&](int rank, int64_t worker_steps, Scheme&, Replica&) {
        if (rank == 0) boundaries.push_back(worker_steps);
      };
    };
    run.at_boundary = note_in(recorded_at);
    const auto recorded = test::train_toy(4, run);
    EXPECT_GT(std::ssize(recorded_at), every == 0 ? 1 : 4);

    run.sync.asp.record = false;
    run.sync.asp.replay = folder / "order.h5";
    run.step_time = test::uneven(10);
    run.at_boundary = note_in(replayed_at);
    for (const int64_t often : {1, 3, 100}) {
      replayed_at.clear();
      run.asks_to_stop = [=](int rank, int64_t steps) {
        return rank == 2 && steps % often == 0;
      };
      const auto replayed = test::train_toy(4, run);
      EXPECT_EQ(replayed.parameters, recorded.parameters);
      EXPECT_EQ(replayed_at, recorded_at);
    }
  }
}

// A run that ends before its last step records the order until there.
TEST(Asp, ReplaysARunThatReachedItsTarget) {
  const test::OwnFolder folder;
  constexpr int64_t kEnd = 40;
  const fs::path path = folder / "until_target.h5";
  ToyRun run = asp_run();
  run.steps = 20;
  run.boundary_every = 5;
  run.sync.asp.record = true;
  run.step_time = test::uneven(9);
  std::vector<float> recorded, replayed;
  const auto keep_in = [](std::vector<float>& values, Replica& replica) {
    OnHost host(replica.parameters.write());
    values.assign(host.values().begin(), host.values().end());
  };
  run.at_boundary = [&](int rank, int64_t worker_steps, Scheme& scheme,
                        Replica& replica) {
    if (worker_steps != kEnd) return;
    scheme.finish(RunEnd::kTarget);
    if (rank != 0) return;
    fs::copy_file(folder / "order.h5", path);
    keep_in(recorded, replica);
  };
  test::train_toy(4, run);

  run.sync.asp.record = false;
  run.sync.asp.replay = path;
  run.step_time = test::uneven(10);
  run.at_boundary = [&](int rank, int64_t worker_steps, Scheme&,
                        Replica& replica) {
    if (rank == 0 && worker_steps == kEnd) keep_in(replayed, replica);
  };
  expect_error(ExitCode::kBadInput,
               "asp.replay: " + path.string() +
                   ": ends at worker step 40, where its run reached "
                   "run.target; expected a run that reaches its target there, "
                   "too",
               [&] { test::train_toy(4, run); });
  EXPECT_EQ(replayed, recorded);
  EXPECT_EQ(recorded.size(), 48u);
}

TEST(Asp, RefusesAnOrderThatDoesNotFit) {
  const test::OwnFolder folder;
  ToyRun run = asp_run();
  run.sync.asp.record = true;
  run.boundary_every = 5;
  test::train_toy(3, run);
  run.sync.asp.record = false;
  const std::string path = run.sync.asp.replay = folder / "order.h5";
  EXPECT_NO_THROW(test::train_toy(3, run));
  const auto expect_refused = [&](const ToyRun& other, int workers,
                                  const std::string& line) {
    expect_error(ExitCode::kBadInput, line,
                 [&] { test::train_toy(workers, other); });
  };
  expect_refused(run, 4, path + ": recorded with workers = 3, expected 4");
  ToyRun other = run;
  other.sync.asp.servers = 2;
  expect_refused(other, 3, path + ": recorded with shards = 3, expected 2");
  other = run;
  other.steps = 9;
  expect_refused(other, 3,
                 path + ": recorded with worker_steps = 30, expected 27");
  other = run;
  other.sync.scheme = "ssp";
  expect_refused(other, 3,
                 path + ": recorded with bound (-1: asp) = -1, expected 3");
  other = run;
  other.boundary_every = 4;
  expect_refused(other, 3,
                 "asp.replay: " + path +
                     ": recorded with a boundary at worker step 15, this run "
                     "has one at 12, expected eval.every and "
                     "checkpoint.every as recorded");
  std::string bytes = read_file(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_file_atomically(path, bytes);
  expect_refused(run, 3,
                 path +
                     ": damaged or altered: its digest is not that of its "
                     "content");
}

TEST(Asp, SaysWhatCannotRun) {
  ToyRun run = asp_run();
  EXPECT_EQ(test::obstacle_of(run, 4), "");
  run.sync.asp.servers = 4;
  EXPECT_EQ(test::obstacle_of(run, 4), "");
  EXPECT_EQ(test::obstacle_of(run, 3),
            "asp.servers: 4, expected auto (one per worker) or 1 to 3");
  run.sync.asp.servers = 0;
  run.sync.asp.pull = Pulling::kBeforeStep;
  EXPECT_EQ(test::obstacle_of(run, 3), "");
  run.sync.asp.record = true;
  EXPECT_EQ(test::obstacle_of(run, 3),
            "asp.record: yes, but no order of pulls is kept, expected no, or "
            "asp.pull = after_push");
  run.sync.asp.pull = Pulling::kAfterPush;
  run.sync.asp.record = false;
  run.sync.asp.replay = "/nowhere/order.h5";
  const Error error = error_of([&] { test::obstacle_of(run, 4); });
  EXPECT_EQ(error.code(), ExitCode::kInputMissing);
  EXPECT_TRUE(
      std::string(error.what()).starts_with("asp.replay: /nowhere/order.h5"));
}

// Also where messages take time: those of the slow worker's last step come long
// after the clocks to which a boundary sets the others back.
TEST(Asp, ABoundaryIsFreeOnSlowLinks) {
  for (const bool is_phase : {false, true})
    for (const int workers : {2, 3}) {
      ToyRun run = test::run_of(is_phase ? "sync_switch" : "asp");
      run.sync.sync_switch.order = {"asp"};
      run.sync.sync_switch.fractions = {1};
      run.steps = 30;
      run.step_s = {1, 20, 2.5};
      run.step_s.resize(workers);
      const NetworkCost cost{.latency_s = 0.01, .bytes_per_s = 2000};
      const auto whole = test::train_toy(workers, run, cost);
      for (const int64_t every : {1, 2, 5}) {
        SCOPED_TRACE(fmt::format("{} workers, every {}, phase: {}", workers,
                                 every, is_phase));
        run.boundary_every = every;
        const auto parted = test::train_toy(workers, run, cost);
        EXPECT_EQ(parted.steps, whole.steps);
        for (int rank = 0; rank < workers; ++rank)
          EXPECT_NEAR(parted.clock[rank], whole.clock[rank], 1e-9) << rank;
      }
    }
}

}  // namespace
}  // namespace syncopate
