#include "cuda/bias.h"

#include <gtest/gtest.h>

#include "support/guarded_tensor.h"
#include "support/test_device.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

struct Case {
  int64_t N, K;
  DType dtype = DType::kF32;
};

class BiasTest : public testing::TestWithParam<Case> {};

TEST_P(BiasTest, AccumulatesColumnSums) {
  const auto [N, K, dtype] = GetParam();
  TestContext test;
  const GuardedTensor dy(dtype, {N, K}, Layout::kRowMajor,
                         random_values(N * K, 1));
  GuardedTensor db(DType::kF32, {K}, Layout::kRowMajor, random_values(K, 2));
  auto expected = db.get();
  const auto added = dy.get();
  for (int64_t n = 0; n < N; ++n)
    for (int64_t k = 0; k < K; ++k) expected[k] += added[n * K + k];
  cuda::accumulate_bias(test.context, db.tensor().f32(), dy.tensor().data,
                        dtype, N, K);
  // N additions, each rounded in proportion to a partial sum of some tens.
  EXPECT_TRUE(all_near(db.get(), expected,
                       {16 * kEpsilonF32 * static_cast<double>(N), 0}));
  EXPECT_TRUE(db.guards_are_intact());
}

INSTANTIATE_TEST_SUITE_P(Shapes,
                         BiasTest,
                         testing::Values(Case{1, 1},
                                         Case{7, 32},
                                         Case{8, 33},
                                         Case{9, 10},
                                         Case{128, 100},
                                         Case{129, 132},
                                         Case{5000, 12},
                                         Case{64, 1, DType::kBf16},
                                         Case{65, 264, DType::kBf16},
                                         Case{1000, 33, DType::kBf16}),
                         [](const auto& info) {
                           return fmt::format("n{}k{}{}", info.param.N,
                                              info.param.K,
                                              name_of(info.param.dtype));
                         });

}  // namespace
}  // namespace syncopate
