// Recorded training steps against the same steps given to the device one by
// one.
#include <gtest/gtest.h>

#include "gradient/model_bench.h"

namespace syncopate {
namespace {

constexpr ImageSpec kSpec{3, 8, 8, 7};

struct Outcome {
  double loss;
  std::vector<float> gradients, buffers;
  std::vector<int64_t> reports;
  bool operator==(const Outcome&) const = default;
};

Outcome step(ModelBench& bench) {
  Outcome outcome;
  outcome.loss =
      bench.step([&](int64_t from) { outcome.reports.push_back(from); });
  outcome.gradients = bench.gradients_;
  outcome.buffers = bench.buffers_;
  return outcome;
}

TEST(StepGraphs, ReplayedStepsEqualThoseGivenOneByOne) {
  for (const bool has_segments : {false, true}) {
    ModelBench plain({.depth = 8}, kSpec, 4), recorded({.depth = 8}, kSpec, 4);
    recorded.records_ = true;
    if (has_segments)
      recorded.segment_offsets_ = {
          recorded.model().parameters().num_elems() / 2, 0};
    // The first runs as it is, the second is recorded, others are replayed.
    for (int i = 0; i < 5; ++i) {
      for (ModelBench* bench : {&plain, &recorded})
        for (float& pixel : bench->images_) pixel *= 0.9f;
      EXPECT_EQ(step(recorded), step(plain)) << i;
    }
  }
}

TEST(StepGraphs, DropoutDrawsAnewInEveryReplay) {
  const ModelOptions options{
      .family = "wrn", .depth = 10, .form = BlockForm::kPre, .dropout = 0.3};
  ModelBench plain(options, kSpec, 4), recorded(options, kSpec, 4);
  std::vector<double> losses;
  for (uint64_t first = 0; first < 5; ++first) {
    StepSettings settings{.dropout_seed = 3, .first_sample = 4 * first};
    const auto loss = [&](ModelBench& bench) {
      return bench.model()
          .forward_backward(bench.context(), bench.view(), bench.batch(),
                            settings, {})
          .get()
          .values[0];
    };
    losses.push_back(loss(plain));
    settings.records = true;
    EXPECT_EQ(loss(recorded), losses.back()) << first;
  }
  EXPECT_NE(losses[3], losses[4]);
}

TEST(StepGraphs, AnotherBatchSizeIsAnotherRecording) {
  ModelBench bench({.depth = 8}, kSpec, 4);
  bench.records_ = true;
  std::vector<double> losses;
  for (int i = 0; i < 3; ++i) {
    std::ranges::fill(bench.gradients_, 0.f);
    const double whole = bench.accumulate(bench.batch());
    std::ranges::fill(bench.gradients_, 0.f);
    const double part = bench.accumulate(bench.batch(0, 3));
    EXPECT_NE(whole, part);
    losses.push_back(whole);
  }
  EXPECT_EQ(losses[0], losses[2]);
}

}  // namespace
}  // namespace syncopate
