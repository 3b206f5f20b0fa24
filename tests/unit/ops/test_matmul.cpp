#include "ops/matmul.h"

#include <cmath>

#include "reference/reference.h"
#include "support/guarded_tensor.h"
#include "support/test_device.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

struct Linear {
  int64_t N, D, K;
};

class LinearTest : public testing::TestWithParam<Linear> {
 protected:
  const int64_t N = GetParam().N, D = GetParam().D, K = GetParam().K;
  TestContext test;
  GuardedTensor x = values({N, D}, 1), w = values({K, D}, 2),
                b = values({K}, 3), dy = values({N, K}, 4);
  static GuardedTensor values(const Shape& shape, uint64_t seed) {
    return {DType::kF32, shape, Layout::kRowMajor,
            random_values(shape.elems(), seed)};
  }
  // Every addition is rounded in proportion to a partial sum of some tens;
  // the errors add up like a random walk.
  static Tolerance sum_of(int64_t terms) {
    return {32 * kEpsilonF32 * (1 + std::sqrt(static_cast<double>(terms))), 0};
  }
};

TEST_P(LinearTest, Forward) {
  GuardedTensor y(DType::kF32, {N, K});
  linear_forward(test.context, y, x, w, b);
  EXPECT_TRUE(all_near(
      y.get(), reference::linear_forward(N, D, K, x.get(), w.get(), b.get()),
      sum_of(D)));
  linear_forward(test.context, y, x, w, ConstTensor());
  EXPECT_TRUE(all_near(y.get(),
                       reference::linear_forward(N, D, K, x.get(), w.get(), {}),
                       sum_of(D)));
  EXPECT_TRUE(y.guards_are_intact());
}

TEST_P(LinearTest, Backward) {
  GuardedTensor dx(DType::kF32, {N, D}), dw = values({K, D}, 5),
                                         db = values({K}, 6);
  auto dw_expected = dw.get(), db_expected = db.get();
  std::vector<double> dx_expected(static_cast<size_t>(N * D));
  const auto xs = x.get(), ws = w.get(), dys = dy.get();
  for (int64_t n = 0; n < N; ++n)
    for (int64_t k = 0; k < K; ++k) {
      db_expected[k] += dys[n * K + k];
      for (int64_t d = 0; d < D; ++d) {
        dx_expected[n * D + d] += dys[n * K + k] * ws[k * D + d];
        dw_expected[k * D + d] += dys[n * K + k] * xs[n * D + d];
      }
    }
  linear_backward(test.context, dx, dw, db, dy, x, w);
  EXPECT_TRUE(all_near(dx.get(), dx_expected, sum_of(K)));
  EXPECT_TRUE(all_near(dw.get(), dw_expected, sum_of(N)));
  EXPECT_TRUE(all_near(db.get(), db_expected, sum_of(N)));
  EXPECT_TRUE(dx.guards_are_intact() && dw.guards_are_intact() &&
              db.guards_are_intact());

  GuardedTensor dw_again = values({K, D}, 5);
  linear_backward(test.context, Tensor(), dw_again, Tensor(), dy, x, w);
  EXPECT_EQ(dw_again.bytes(), dw.bytes());
}

INSTANTIATE_TEST_SUITE_P(Shapes,
                         LinearTest,
                         testing::Values(Linear{1, 1, 1},
                                         Linear{3, 17, 5},
                                         Linear{1, 64, 10},
                                         Linear{128, 64, 10},
                                         Linear{7, 784, 10},
                                         Linear{33, 129, 65}),
                         [](const auto& info) {
                           return fmt::format("n{}d{}k{}", info.param.N,
                                              info.param.D, info.param.K);
                         });

}  // namespace
}  // namespace syncopate
