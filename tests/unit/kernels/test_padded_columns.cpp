// Products on a GPU whose x has columns of zeros behind those of w.
#include <gtest/gtest.h>

#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "support/guarded_tensor.h"
#include "support/test_device.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

struct Case {
  int64_t N, D, K;
};

class PaddedColumnsTest : public testing::TestWithParam<Case> {
 protected:
  TestContext test;
  const int64_t N = GetParam().N, D = GetParam().D, K = GetParam().K;
  const int64_t P = padded_channels(D);

  // Rows of P values, of which those from D on are 0, and back.
  std::vector<double> padded(const std::vector<double>& values,
                             int64_t rows) const {
    std::vector<double> wide(static_cast<size_t>(rows * P));
    for (int64_t i = 0; i < rows * D; ++i) wide[i / D * P + i % D] = values[i];
    return wide;
  }
};

// The results are those for x without them, and dx has zeros there; also where
// there is a copy of w, of either width, or dx is not wanted.
TEST_P(PaddedColumnsTest, AddNothing) {
  const GuardedTensor x = random_tensor({N, D}, 1, DType::kBf16),
                      dy = random_tensor({N, K}, 2, DType::kBf16),
                      w = random_tensor({K, D}, 3), b = random_tensor({K}, 4),
                      addend = random_tensor({N, D}, 5, DType::kBf16);
  const GuardedTensor y(DType::kBf16, {N, K}), dx(DType::kBf16, {N, D}),
      dw = random_tensor({K, D}, 6), db = random_tensor({K}, 7);
  linear_forward(test.context, y, x, w, b);
  linear_backward(test.context, dx, dw, db, dy, x, w, addend);

  const GuardedTensor wide_x(DType::kBf16, {N, P}, padded(x.get(), N)),
      wide_addend(DType::kBf16, {N, P}, padded(addend.get(), N)),
      narrow_copy(DType::kBf16, {K, D}, w.get()),
      wide_copy(DType::kBf16, {K, P}, padded(w.get(), K));
  const Tolerance tolerance{64 * kEpsilonF32 * static_cast<double>(N + D + K),
                            2 * kEpsilonBf16};
  // Where rows are not whole packs, the library rounds the product before it
  // adds the bias, which is below 1.
  const Tolerance tolerance_of_y{tolerance.absolute + kEpsilonBf16,
                                 3 * kEpsilonBf16};
  for (const GuardedTensor* copy :
       {static_cast<const GuardedTensor*>(nullptr), &narrow_copy, &wide_copy}) {
    ConstWeight weight(w.tensor());
    if (copy != nullptr) {
      weight.copy = static_cast<const Bf16*>(copy->tensor().data);
      weight.copy_C = copy->tensor().shape[1];
    }
    const GuardedTensor wide_y(DType::kBf16, {N, K}),
        wide_dx(DType::kBf16, {N, P}), dw_again = random_tensor({K, D}, 6),
                                       db_again = random_tensor({K}, 7);
    linear_forward(test.context, wide_y, wide_x, weight, b);
    linear_backward(test.context, wide_dx, dw_again, db_again, dy, wide_x,
                    weight, wide_addend);
    EXPECT_TRUE(all_near(wide_y.get(), y.get(), tolerance_of_y));
    EXPECT_TRUE(all_near(wide_dx.get(), padded(dx.get(), N), tolerance));
    const auto all = wide_dx.get();
    for (int64_t n = 0; n < N; ++n)
      for (int64_t d = D; d < P; ++d) EXPECT_EQ(all[n * P + d], 0) << d;
    EXPECT_TRUE(all_near(dw_again.get(), dw.get(), tolerance));
    EXPECT_EQ(db_again.bytes(), db.bytes());

    const GuardedTensor dw_alone = random_tensor({K, D}, 6);
    linear_backward(test.context, Tensor(), dw_alone, Tensor(), dy, wide_x,
                    weight);
    EXPECT_EQ(dw_alone.bytes(), dw_again.bytes());
    for (const GuardedTensor* written : {&wide_y, &wide_dx, &dw_again})
      EXPECT_TRUE(written->guards_are_intact());
  }
}

// With one output or few rows, other kernels than the library's.
INSTANTIATE_TEST_SUITE_P(Shapes,
                         PaddedColumnsTest,
                         testing::Values(Case{64, 390, 40},
                                         Case{33, 17, 12},
                                         Case{9, 7, 9},
                                         Case{40, 390, 1},
                                         Case{5, 13, 30}),
                         [](const auto& info) {
                           return fmt::format("n{}d{}k{}", info.param.N,
                                              info.param.D, info.param.K);
                         });

}  // namespace
}  // namespace syncopate
