// A small DeepFM with dropout, from its rows to the loss: the gradient of each
// tensor by central differences.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "gradient/deepfm_bench.h"

namespace syncopate {
namespace {

constexpr double kTolerance = 3e-3;

const ClickSpec kSpec{{5, 9, 3, 14}};

// Values of order one; whole channels on one side of the ReLUs.
void set_up(DeepFmBench& bench) {
  const auto& entries = bench.model().parameters().entries();
  for (size_t i = 0; i < entries.size(); ++i) {
    const ParameterEntry& entry = entries[i];
    const auto values = bench.values(entry);
    if (entry.role == Role::kBatchNorm && entry.name.ends_with(".weight"))
      keep_off_kinks(values, bench.values(entries[i + 1]));
    else if (entry.role == Role::kEmbedding)
      fill_normal(values, static_cast<uint64_t>(i) + 3);
  }
}

TEST(DeepFm, EveryTensor) {
  DeepFmBench bench(kSpec, {3, {12, 9}, 0.3f}, 16);
  set_up(bench);
  bench.step();
  const std::vector<float> gradients = bench.gradients_;
  for (const ParameterEntry& entry : bench.model().parameters().entries()) {
    // The bias in front of a BatchNorm has no gradient by nature.
    EXPECT_LT(bench.error_of(entry, gradients, 2, 0.01), kTolerance)
        << entry.name;
  }
}

TEST(DeepFm, CheckRefusesAGradientThatIsSlightlyWrong) {
  DeepFmBench bench(kSpec, {3, {12, 9}, 0.3f}, 16);
  set_up(bench);
  EXPECT_GT(bench.error_of_scaled(0.95f), kTolerance);
}

}  // namespace
}  // namespace syncopate
