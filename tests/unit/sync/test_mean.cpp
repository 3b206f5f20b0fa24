// Schemes that average parameters keep the mean of all models but for rounding
// that has no preferred side: after thousands of steps it is where the mean of
// the steps takes it.
#include "unit/sync/gossip_toy.h"

namespace syncopate {
namespace {

using test::Matrix;
using test::ToyRun;

// Worker i's steps differ from those of the others and add up to 0 over the
// workers: multiples of 2^-12, exact in fp32.
void opposed_gradient(int workers,
                      int rank,
                      int64_t step,
                      std::span<float> gradient) {
  const auto draw = [&](int of, size_t i) {
    Rng rng(3, Purpose::kTest, static_cast<uint64_t>(of % workers),
            static_cast<uint64_t>(step) << 8 | i);
    return std::round(static_cast<float>(rng.uniform()) * 0x1p8f) * 0x1p-12f;
  };
  for (size_t i = 0; i < gradient.size(); ++i)
    gradient[i] = draw(rank, i) - draw(rank + 1, i);
}

// The largest relative change of an element of the mean. All start between 0.5
// and 1, where a float's spacing is 6e-8.
double drift_of(ToyRun run, int workers) {
  run.steps = 2000;
  run.num_buffers = 0;
  run.tensors = {30};
  run.optimizer.lr = 1;
  run.start = [](int, int64_t i) {
    return 0.5f + 0.015f * static_cast<float>(i);
  };
  run.gradient = [workers](int rank, int64_t step, std::span<const float>,
                           std::span<float> gradient) {
    opposed_gradient(workers, rank, step, gradient);
  };
  const auto before = test::mean_of(test::start_of(run, workers));
  const auto after = test::mean_of(test::train_toy(workers, run).parameters);
  double drift = 0;
  for (size_t e = 0; e < before.size(); ++e)
    drift = std::max(drift, std::abs(after[e] / before[e] - 1));
  return drift;
}

// A mean of three that is formed by the nearest float to 1/3 would be 6e-5 too
// large after 2,000 steps.
constexpr double kBound = 8e-6;
// Of gossip, each neighbour's term is rounded at the size of a parameter. With
// the nearest floats to 1/6 and -5/6 as weights, it would be 9e-5.
constexpr double kGossipBound = 4e-5;

TEST(MeanOfModels, StaysUnderAverages) {
  for (const int workers : {3, 5, 6, 7, 9}) {
    EXPECT_LT(drift_of(test::run_of("ds_sync"), workers), kBound) << workers;
    ToyRun run = test::run_of("local_sgd");
    run.sync.local_sgd.steps = 1;
    EXPECT_LT(drift_of(run, workers), kBound) << workers;
  }
}

TEST(MeanOfModels, StaysUnderGossip) {
  for (const auto& [kind, workers] : {std::pair{"complete", 5},
                                      {"complete", 6},
                                      {"complete", 7},
                                      {"exponential", 8},
                                      {"exponential", 12},
                                      {"ring", 6}})
    for (const char* scheme : {"d_psgd", "deep_squeeze", "dcd_psgd"}) {
      ToyRun run = test::gossip_run(scheme);
      run.sync.topology.kind = kind;
      run.sync.compress.kind = "identity";
      run.sync.choco.gamma = 0.7;
      EXPECT_LT(drift_of(run, workers), kGossipBound)
          << scheme << " " << kind << " " << workers;
    }
}

}  // namespace
}  // namespace syncopate
