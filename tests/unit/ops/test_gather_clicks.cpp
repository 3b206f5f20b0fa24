#include "ops/gather_clicks.h"

#include <gtest/gtest.h>

#include <array>

#include "base/rng.h"
#include "support/guarded_tensor.h"
#include "support/test_device.h"

namespace syncopate {
namespace {

using namespace test;

std::vector<double> random_integers(int64_t count, int64_t end, uint64_t seed) {
  Rng rng(seed, Purpose::kTest);
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(
        static_cast<double>(rng.below(static_cast<uint64_t>(end))));
  return values;
}

// More rows than a grid has threads, fewer than a block, none, and one field.
TEST(GatherClicks, CopiesTheRecordsAskedFor) {
  for (const auto& [S, N, F] : {std::array<int64_t, 3>{50, 1000, 39},
                                {7, 3, 5},
                                {1, 1, 1},
                                {20, 0, 4},
                                {300000, 40000, 39}}) {
    TestContext test;
    const auto records = random_integers(S * F, 1 << 24, 1);
    const auto clicked = random_integers(S, 2, 2);
    const auto wanted = random_integers(N, S, 3);
    const GuardedTensor table(DType::kI32, {S, F}, Layout::kRowMajor, records);
    const GuardedTensor flags(DType::kU8, {S}, Layout::kRowMajor, clicked);
    const GuardedTensor samples(DType::kI32, {N}, Layout::kRowMajor, wanted);
    const GuardedTensor rows(DType::kI32, {N, F}), labels(DType::kI32, {N});
    gather_clicks(test.context, rows, labels, table, flags, samples);
    std::vector<double> expected_rows, expected_labels;
    for (const double sample : wanted) {
      const auto first = records.begin() + static_cast<int64_t>(sample) * F;
      expected_rows.insert(expected_rows.end(), first, first + F);
      expected_labels.push_back(clicked[static_cast<size_t>(sample)]);
    }
    EXPECT_EQ(rows.get(), expected_rows) << S << " " << N << " " << F;
    EXPECT_EQ(labels.get(), expected_labels);
    EXPECT_TRUE(rows.guards_are_intact() && labels.guards_are_intact());
  }
}

TEST(GatherClicks, NoticesASampleThatDoesNotExist) {
  for (const double sample : {-1.0, 3.0}) {
    TestContext test;
    const GuardedTensor table(DType::kI32, {3, 2}, Layout::kRowMajor,
                              {1, 2, 3, 4, 5, 6});
    const GuardedTensor flags(DType::kU8, {3}, Layout::kRowMajor, {0, 1, 0});
    const GuardedTensor samples(DType::kI32, {2}, Layout::kRowMajor,
                                {1, sample});
    const GuardedTensor rows(DType::kI32, {2, 2}), labels(DType::kI32, {2});
    const auto gather = [&] {
      gather_clicks(test.context, rows, labels, table, flags, samples);
    };
    if (test.context.device().kind() == DeviceKind::kCpu) {
      EXPECT_THROW(gather(), Error);
    } else {
      gather();
      EXPECT_EQ(rows.get(), (std::vector<double>{3, 4, -1, -1}));
    }
  }
}

}  // namespace
}  // namespace syncopate
