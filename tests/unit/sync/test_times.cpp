// All time is accounted for exactly once: in virtual time a worker either
// computes or waits, under every scheme, with and without boundaries.
// SPDX-License-Identifier: Apache-2.0
#include "unit/sync/toy_run.h"

namespace syncopate {
namespace {

class Times : public testing::TestWithParam<std::string> {};

TEST_P(Times, OfComputingAndWaitingAreTheClocks) {
  constexpr int kWorkers = 5;
  for (const int64_t boundary_every : {0, 1, 4}) {
    // A boundary is free, also for the pull that is in flight when an asp phase
    // ends at one and is already accounted for. Such pulls queue on servers'
    // links.
    double tolerance_s = 1e-9;
    if (GetParam() == "sync_switch")
      tolerance_s = boundary_every == 1 ? 2 : 0.2;
    std::vector<double> spent(kWorkers);
    test::ToyRun run = test::quick_run_of(GetParam());
    run.boundary_every = boundary_every;
    run.step_time = [&](int rank, int64_t step) {
      const double step_s = 1 + 0.3 * rank + 0.7 * ((rank + step) % 3 == 0);
      spent[rank] += step_s;
      return step_s;
    };
    const auto add_times = [&](int rank, Scheme& scheme) {
      const SyncTimes times = scheme.take_times();
      EXPECT_LE(times.wait_s, times.exposed_s + 1e-9);
      // The clock contains what a device computes.
      EXPECT_EQ(times.device_s, 0);
      spent[rank] += times.exposed_s;
    };
    run.after_step = [&](int rank, const StepPlan&, Scheme& scheme, Replica&) {
      add_times(rank, scheme);
    };
    run.after_resume = add_times;
    const test::ToyResult result =
        test::train_toy(kWorkers, run, {.latency_s = 0.05, .bytes_per_s = 2e3});
    for (int rank = 0; rank < kWorkers; ++rank)
      EXPECT_NEAR(spent[rank], result.clock[rank], tolerance_s)
          << "worker " << rank << ", boundaries every " << boundary_every;
  }
}

// Every order of buckets gives the same bits.
TEST_P(Times, OrderOfBucketsDoesNotMatter) {
  test::ToyRun run = test::quick_run_of(GetParam());
  const auto whole = test::train_toy(2, run).parameters;
  run.bucket_elems = 7;
  EXPECT_EQ(test::train_toy(2, run).parameters, whole);
}

INSTANTIATE_TEST_SUITE_P(AllSchemes,
                         Times,
                         testing::ValuesIn(test::every_scheme()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace syncopate
