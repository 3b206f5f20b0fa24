#include "ops/matmul.h"

#include <cmath>
#include <map>
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

class LinearTest : public testing::TestWithParam<Linear> {
 protected:
  const int64_t N = GetParam().N, D = GetParam().D, K = GetParam().K;
  const DType dtype = GetParam().dtype;
  TestContext test;
  void SetUp() override {
    if (dtype == DType::kBf16 && !has_bf16())
      GTEST_SKIP() << "this processor has no bf16 instructions";
  }
  GuardedTensor x = values({N, D}, 1, dtype), w = values({K, D}, 2),
                b = values({K}, 3), dy = values({N, K}, 4, dtype);
  static GuardedTensor values(const Shape& shape,
                              uint64_t seed,
                              DType dtype = DType::kF32) {
    return {dtype, shape, Layout::kRowMajor,
            random_values(shape.elems(), seed)};
  }
  // w as a product with x takes it.
  std::vector<double> rounded_w() const {
    return GuardedTensor(dtype, {K, D}, Layout::kRowMajor, w.get()).get();
  }
  // Every addition is rounded in proportion to a partial sum of some tens;
  // the errors add up like a random walk.
  static Tolerance sum_of(int64_t terms) {
    return {32 * kEpsilonF32 * (1 + std::sqrt(static_cast<double>(terms))), 0};
  }
  // And a result of the type of x is rounded once more; a GPU's library takes
  // a bias, below 1 here, of that type too.
  Tolerance output_of(int64_t terms) const {
    const bool is_rounded = dtype == DType::kBf16;
    const bool is_bias_rounded =
        is_rounded && test.device.kind() != DeviceKind::kCpu;
    return {sum_of(terms).absolute + (is_bias_rounded ? kEpsilonBf16 : 0),
            is_rounded ? 1.01 * kEpsilonBf16 : 0};
  }
};

TEST_P(LinearTest, Forward) {
  GuardedTensor y(dtype, {N, K});
  linear_forward(test.context, y, x, w, b);
  EXPECT_TRUE(all_near(
      y.get(),
      reference::linear_forward(N, D, K, x.get(), rounded_w(), b.get()),
      output_of(D)));
  linear_forward(test.context, y, x, w, ConstTensor());
  EXPECT_TRUE(all_near(
      y.get(), reference::linear_forward(N, D, K, x.get(), rounded_w(), {}),
      output_of(D)));
  EXPECT_TRUE(y.guards_are_intact());
}

TEST_P(LinearTest, Backward) {
  GuardedTensor dx(dtype, {N, D}), dw = values({K, D}, 5), db = values({K}, 6);
  LinearGradients expected =
      gradients_by_formula(GetParam(), dy.get(), x.get(), rounded_w());
  const auto dw_before = dw.get(), db_before = db.get();
  for (size_t i = 0; i < dw_before.size(); ++i) expected.dw[i] += dw_before[i];
  for (size_t i = 0; i < db_before.size(); ++i) expected.db[i] += db_before[i];
  linear_backward(test.context, dx, dw, db, dy, x, w);
  EXPECT_TRUE(all_near(dx.get(), expected.dx, output_of(K)));
  EXPECT_TRUE(all_near(dw.get(), expected.dw, sum_of(N)));
  EXPECT_TRUE(all_near(db.get(), expected.db, sum_of(N)));
  EXPECT_TRUE(dx.guards_are_intact() && dw.guards_are_intact() &&
              db.guards_are_intact());

  GuardedTensor dw_again = values({K, D}, 5);
  linear_backward(test.context, Tensor(), dw_again, Tensor(), dy, x, w);
  EXPECT_EQ(dw_again.bytes(), dw.bytes());
}

TEST_P(LinearTest, SameBitsAgain) {
  TestContext other;
  using Bytes = std::vector<char>;
  std::vector<std::map<std::string, Bytes>> results;
  for (Context* context : {&test.context, &test.context, &other.context}) {
    GuardedTensor y(dtype, {N, K}), dx(dtype, {N, D}), dw = values({K, D}, 5),
                                                       db = values({K}, 6);
    linear_forward(*context, y, x, w, b);
    linear_backward(*context, dx, dw, db, dy, x, w);
    auto& of = results.emplace_back();
    for (const auto& [name, tensor] :
         {std::pair("y", &y), {"dx", &dx}, {"dw", &dw}, {"db", &db}}) {
      const auto part = tensor->bytes();
      of[name] = Bytes(part.begin(), part.end());
    }
  }
  for (const char* name : {"y", "dx", "dw", "db"})
    for (const size_t again : {1, 2})
      EXPECT_TRUE(results[again][name] == results[0][name]) << name;
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
    const int64_t N = 700, D = 41, K = 3;
    const auto tensor = [&](const Shape& shape, uint64_t seed, DType type) {
      return GuardedTensor(type, shape, Layout::kRowMajor,
                           random_values(shape.elems(), seed));
    };
    std::vector<std::vector<char>> bytes;
    for (const int threads : {1, 2, 3}) {
      TestContext test(threads);
      const GuardedTensor x = tensor({N, D}, 1, dtype),
                          dy = tensor({N, K}, 2, dtype),
                          w = tensor({K, D}, 3, DType::kF32),
                          b = tensor({K}, 4, DType::kF32), y(dtype, {N, K}),
                          dx(dtype, {N, D}),
                          dw = tensor({K, D}, 5, DType::kF32),
                          db = tensor({K}, 6, DType::kF32);
      linear_forward(test.context, y, x, w, b);
      linear_backward(test.context, dx, dw, db, dy, x, w);
      std::vector<char> all;
      for (const GuardedTensor* of : {&y, &dx, &dw, &db}) {
        const auto part = of->bytes();
        all.insert(all.end(), part.begin(), part.end());
      }
      bytes.push_back(all);
    }
    EXPECT_EQ(bytes[1], bytes[0]);
    EXPECT_EQ(bytes[2], bytes[0]);
  }
}

// What lies behind the last row, or in the next one, is no part of a product.
TEST(Linear, NanStaysInItsRow) {
  const int64_t N = 70, D = 21, K = 2;
  TestContext test;
  auto values = random_values(N * D, 1);
  values[5 * D] = std::nan("");
  const GuardedTensor x(DType::kF32, {N, D}, Layout::kRowMajor, values),
      w(DType::kF32, {K, D}, Layout::kRowMajor, random_values(K * D, 2)),
      y(DType::kF32, {N, K});
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
    const GuardedTensor w(DType::kF32, {7, 5}, Layout::kRowMajor,
                          random_values(35, 1)),
        dw(DType::kF32, {7, 5}, Layout::kRowMajor, random_values(35, 2));
    const auto before = dw.bytes();
    linear_forward(test.context, none(7), none(5), w, ConstTensor());
    linear_backward(test.context, Tensor(), dw, Tensor(), none(7), none(5), w);
    EXPECT_EQ(dw.bytes(), before);
  }
}

}  // namespace
}  // namespace syncopate
