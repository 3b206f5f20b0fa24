#include "ops/matmul.h"

#include <cmath>
#include <string>

#include "reference/reference.h"
#include "support/guarded_tensor.h"
#include "support/test_device.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

struct Linear {
  int64_t N, D, K;
  DType dtype = DType::kF32;
};

struct LinearGradients {
  std::vector<double> dx, dw, db;
};

LinearGradients gradients_by_formula(const Linear& of,
                                     const std::vector<double>& dy,
                                     const std::vector<double>& x,
                                     const std::vector<double>& w) {
  const auto& [N, D, K, dtype] = of;
  LinearGradients sums{std::vector<double>(static_cast<size_t>(N * D)),
                       std::vector<double>(static_cast<size_t>(K * D)),
                       std::vector<double>(static_cast<size_t>(K))};
  for (int64_t n = 0; n < N; ++n)
    for (int64_t k = 0; k < K; ++k) {
      const double g = dy[n * K + k];
      sums.db[k] += g;
      for (int64_t d = 0; d < D; ++d) {
        sums.dx[n * D + d] += g * w[k * D + d];
        sums.dw[k * D + d] += g * x[n * D + d];
      }
    }
  return sums;
}

// The tensors of both ops with random values.
struct LinearRun : Linear {
  GuardedTensor x = random_tensor({N, D}, 1, dtype),
                w = random_tensor({K, D}, 2), b = random_tensor({K}, 3),
                dy = random_tensor({N, K}, 4, dtype);
  GuardedTensor y{dtype, {N, K}}, dx{dtype, {N, D}};
  GuardedTensor dw = random_tensor({K, D}, 5), db = random_tensor({K}, 6);

  explicit LinearRun(const Linear& of) : Linear(of) {}
  void forward(Context& context) { linear_forward(context, y, x, w, b); }
  void backward(Context& context) {
    linear_backward(context, dx, dw, db, dy, x, w);
  }
  void expect_bits_of(const LinearRun& other) const {
    EXPECT_EQ(y.bytes(), other.y.bytes());
    EXPECT_EQ(dx.bytes(), other.dx.bytes());
    EXPECT_EQ(dw.bytes(), other.dw.bytes());
    EXPECT_EQ(db.bytes(), other.db.bytes());
  }
};

class LinearTest : public testing::TestWithParam<Linear>, protected LinearRun {
 protected:
  LinearTest() : LinearRun(GetParam()) {}
  TestContext test;
  void SetUp() override {
    if (dtype == DType::kBf16 && !has_bf16())
      GTEST_SKIP() << "this processor has no bf16 instructions";
  }
  // w as a product with x takes it.
  std::vector<double> rounded_w() const {
    return GuardedTensor(dtype, {K, D}, w.get()).get();
  }
  // Every addition is rounded in proportion to a partial sum of some tens;
  // the errors add up like a random walk.
  static Tolerance sum_of(int64_t terms) {
    return {32 * kEpsilonF32 * (1 + std::sqrt(static_cast<double>(terms))), 0};
  }
  // A result of the type of x is rounded once more; a GPU's library also takes
  // the bias, which is below 1 here, in that type, and where rows are not whole
  // packs it rounds the product before it adds the bias.
  Tolerance output_of(int64_t terms, bool has_bias = false) const {
    const bool is_rounded = dtype == DType::kBf16;
    const bool is_bias_rounded =
        has_bias && is_rounded && test.device.kind() != DeviceKind::kCpu;
    const bool is_twice = is_bias_rounded && (D % 8 != 0 || K % 8 != 0);
    return {sum_of(terms).absolute +
                (is_bias_rounded ? (is_twice ? 2 : 1) * kEpsilonBf16 : 0),
            is_rounded ? (is_twice ? 2.02 : 1.01) * kEpsilonBf16 : 0};
  }
};

TEST_P(LinearTest, Forward) {
  forward(test.context);
  EXPECT_TRUE(all_near(
      y.get(),
      reference::linear_forward(N, D, K, x.get(), rounded_w(), b.get()),
      output_of(D, true)));
  linear_forward(test.context, y, x, w, ConstTensor());
  EXPECT_TRUE(all_near(
      y.get(), reference::linear_forward(N, D, K, x.get(), rounded_w(), {}),
      output_of(D)));
}

TEST_P(LinearTest, Backward) {
  LinearGradients expected =
      gradients_by_formula(GetParam(), dy.get(), x.get(), rounded_w());
  const auto dw_before = dw.get(), db_before = db.get();
  for (size_t i = 0; i < dw_before.size(); ++i) expected.dw[i] += dw_before[i];
  for (size_t i = 0; i < db_before.size(); ++i) expected.db[i] += db_before[i];
  backward(test.context);
  EXPECT_TRUE(all_near(dx.get(), expected.dx, output_of(K)));
  EXPECT_TRUE(all_near(dw.get(), expected.dw, sum_of(N)));
  EXPECT_TRUE(all_near(db.get(), expected.db, sum_of(N)));

  const GuardedTensor dw_again = random_tensor({K, D}, 5);
  linear_backward(test.context, Tensor(), dw_again, Tensor(), dy, x, w);
  EXPECT_EQ(dw_again.bytes(), dw.bytes());
}

// An addend is added to the product, in fp32 or after one rounding more.
TEST_P(LinearTest, BackwardAddsTo) {
  LinearGradients expected =
      gradients_by_formula(GetParam(), dy.get(), x.get(), rounded_w());
  const GuardedTensor addend = random_tensor({N, D}, 7, dtype);
  const auto before = addend.bytes();
  const auto addends = addend.get();
  backward(test.context);
  const GuardedTensor dw_again = random_tensor({K, D}, 5),
                      db_again = random_tensor({K}, 6), sum(dtype, {N, D});
  linear_backward(test.context, sum, dw_again, db_again, dy, x, w, addend);
  EXPECT_EQ(dw_again.bytes(), dw.bytes());
  EXPECT_EQ(db_again.bytes(), db.bytes());
  EXPECT_EQ(addend.bytes(), before);
  Tolerance tolerance = output_of(K);
  // That of the product's rounding, which the sum need not have.
  if (dtype == DType::kBf16)
    tolerance.absolute += kEpsilonBf16 * largest_magnitude(expected.dx);
  for (size_t i = 0; i < addends.size(); ++i) expected.dx[i] += addends[i];
  EXPECT_TRUE(all_near(sum.get(), expected.dx, tolerance));
}

// A model's parameters and gradients start at any element of a range.
TEST_P(LinearTest, ParametersMayStartAnywhere) {
  LinearGradients expected =
      gradients_by_formula(GetParam(), dy.get(), x.get(), rounded_w());
  const auto dw_before = dw.get();
  for (size_t i = 0; i < dw_before.size(); ++i) expected.dw[i] += dw_before[i];
  forward(test.context);
  for (const size_t shift : {1, 2, 3}) {
    const auto moved = [shift](const GuardedTensor& tensor) {
      return flat(moved_by(shift, 0.0, tensor.get()));
    };
    const auto behind = [shift](const GuardedTensor& range,
                                const Shape& shape) {
      return make_tensor(range.tensor().f32() + shift, DType::kF32, shape);
    };
    const GuardedTensor w_range = moved(w), b_range = moved(b),
                        dw_range = moved(dw), other_y(dtype, {N, K}),
                        other_dx(dtype, {N, D});
    const Tensor w_there = behind(w_range, {K, D});
    linear_forward(test.context, other_y, x, w_there, behind(b_range, {K}));
    EXPECT_TRUE(all_near(other_y.get(), y.get(), output_of(D)));
    linear_backward(test.context, other_dx, behind(dw_range, {K, D}), Tensor(),
                    dy, x, w_there);
    EXPECT_TRUE(all_near(other_dx.get(), expected.dx, output_of(K)));
    EXPECT_TRUE(
        all_near(dw_range.get(), moved_by(shift, 0.0, expected.dw), sum_of(N)));
  }
}

TEST_P(LinearTest, SameBitsAgain) {
  TestContext other;
  forward(test.context);
  backward(test.context);
  for (Context* context : {&test.context, &other.context}) {
    LinearRun again(GetParam());
    again.forward(*context);
    again.backward(*context);
    again.expect_bits_of(*this);
  }
}

std::string name_of(const testing::TestParamInfo<Linear>& info) {
  return fmt::format("n{}d{}k{}{}", info.param.N, info.param.D, info.param.K,
                     info.param.dtype == DType::kBf16 ? "bf16" : "");
}

// In both types: single ones, odd ones, few outputs with and without whole
// vectors, and all the numbers of rows that are taken together.
std::vector<Linear> shapes() {
  std::vector<Linear> all;
  for (const DType dtype : {DType::kF32, DType::kBf16})
    for (const Linear& of :
         {Linear{1, 1, 1}, {3, 17, 5},     {1, 64, 10},    {128, 64, 10},
          {7, 784, 10},    {33, 129, 65},  {1, 400, 1},    {301, 400, 1},
          {385, 256, 2},   {67, 31, 3},    {130, 18, 4},   {15, 40, 48},
          {16, 40, 48},    {17, 33, 47},   {1379, 30, 18}, {343, 390, 400},
          {1030, 390, 40}, {2, 256, 1024}, {100, 1, 70},   {100, 2, 70},
          {90, 70, 5}})
      all.push_back({of.N, of.D, of.K, dtype});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Shapes,
                         LinearTest,
                         testing::ValuesIn(shapes()),
                         name_of);

// Sums over rows and what few outputs need are formed without regard to
// threads; what a library multiplies need not be.
TEST(Linear, FewOutputsDoNotDependOnThreads) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    const Linear size{700, 41, 3, dtype};
    LinearRun one(size);
    for (const int threads : {1, 2, 3}) {
      TestContext test(threads);
      LinearRun more(size);
      LinearRun& run = threads == 1 ? one : more;
      run.forward(test.context);
      run.backward(test.context);
      run.expect_bits_of(one);
    }
  }
}

// Products do not include values behind the last row or in the next one.
TEST(Linear, NanStaysInItsRow) {
  const int64_t N = 70, D = 21, K = 2;
  TestContext test;
  auto values = random_values(N * D, 1);
  values[5 * D] = std::nan("");
  const GuardedTensor x(DType::kF32, {N, D}, values),
      w = random_tensor({K, D}, 2), y(DType::kF32, {N, K});
  linear_forward(test.context, y, x, w, ConstTensor());
  const auto ys = y.get();
  for (int64_t i = 0; i < N * K; ++i)
    EXPECT_EQ(std::isnan(ys[i]), i / K == 5) << i;
}

TEST(Linear, NoRowsAreNothing) {
  TestContext test;
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    const auto none = [&](int64_t width) {
      return make_tensor(nullptr, dtype, Shape{0, width});
    };
    const GuardedTensor w = random_tensor({7, 5}, 1),
                        dw = random_tensor({7, 5}, 2);
    const auto before = dw.bytes();
    linear_forward(test.context, none(7), none(5), w, ConstTensor());
    linear_backward(test.context, Tensor(), dw, Tensor(), none(7), none(5), w);
    EXPECT_EQ(dw.bytes(), before);
  }
}

}  // namespace
}  // namespace syncopate
