#include "cuda/few_outputs.h"

#include <gtest/gtest.h>

#include "support/guarded_tensor.h"
#include "support/test_device.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

struct Case {
  int64_t N, D, K;
  DType dtype = DType::kF32;
};

class FewOutputsTest : public testing::TestWithParam<Case> {};

// y = x w^T + b, and its gradients, where dw and db are added to. Values of w
// are exact in bf16.
TEST_P(FewOutputsTest, AreTheProducts) {
  const auto [N, D, K, dtype] = GetParam();
  TestContext test;
  const auto make = [](DType of, Shape shape, uint64_t seed) {
    return GuardedTensor(of, shape, Layout::kRowMajor,
                         random_values(shape.elems(), seed));
  };
  const auto x = make(dtype, {N, D}, 1), dy = make(dtype, {N, K}, 2);
  const GuardedTensor w(DType::kF32, {K, D}, Layout::kRowMajor,
                        make(DType::kBf16, {K, D}, 3).get());
  const GuardedTensor b(DType::kF32, {K}, Layout::kRowMajor,
                        make(DType::kBf16, {K}, 4).get());
  auto y = make(dtype, {N, K}, 5), dx = make(dtype, {N, D}, 6);
  auto dw = make(DType::kF32, {K, D}, 7), db = make(DType::kF32, {K}, 8);
  std::vector<double> y_want(y.get().size()), dx_want(dx.get().size());
  auto dw_want = dw.get(), db_want = db.get();
  const auto xs = x.get(), ws = w.get(), bs = b.get(), dys = dy.get();
  for (int64_t n = 0; n < N; ++n)
    for (int64_t k = 0; k < K; ++k) {
      y_want[n * K + k] = bs[k];
      db_want[k] += dys[n * K + k];
      for (int64_t d = 0; d < D; ++d) {
        y_want[n * K + k] += xs[n * D + d] * ws[k * D + d];
        dx_want[n * D + d] += dys[n * K + k] * ws[k * D + d];
        dw_want[k * D + d] += dys[n * K + k] * xs[n * D + d];
      }
    }
  cuda::few_outputs_forward(test.context, y, x, w, b);
  cuda::few_outputs_backward(test.context, dx, dw, db, dy, x, w);
  const double epsilon = epsilon_of(dtype);
  const auto near = [](double each, int64_t terms) {
    return Tolerance{16 * kEpsilonF32 * static_cast<double>(terms) + each,
                     each};
  };
  EXPECT_TRUE(all_near(y.get(), y_want, near(epsilon, D)));
  EXPECT_TRUE(all_near(dx.get(), dx_want, near(epsilon, K)));
  EXPECT_TRUE(all_near(dw.get(), dw_want, near(kEpsilonF32, N)));
  EXPECT_TRUE(all_near(db.get(), db_want, near(kEpsilonF32, N)));
  for (const GuardedTensor* written : {&y, &dx, &dw, &db})
    EXPECT_TRUE(written->guards_are_intact());
}

INSTANTIATE_TEST_SUITE_P(Shapes,
                         FewOutputsTest,
                         testing::Values(Case{1, 1, 1},
                                         Case{300, 400, 1},
                                         Case{65, 33, 2},
                                         Case{129, 31, 8},
                                         Case{1, 400, 400},
                                         Case{8, 5, 17},
                                         Case{300, 390, 1, DType::kBf16},
                                         Case{3, 64, 9, DType::kBf16}),
                         [](const auto& info) {
                           return fmt::format("n{}d{}k{}{}", info.param.N,
                                              info.param.D, info.param.K,
                                              name_of(info.param.dtype));
                         });

}  // namespace
}  // namespace syncopate
