#include "ops/pool.h"

#include <cmath>
#include <string>

#include "ops/conv.h"
#include "reference/reference.h"
#include "support/guarded_tensor.h"
#include "support/test_device.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

struct PoolCase {
  int64_t N, C, H, W;
  Layout layout;  // a GPU takes kNhwc in the place of any other
  DType dtype;
};

std::string name_of_case(const testing::TestParamInfo<PoolCase>& info) {
  const PoolCase& c = info.param;
  return fmt::format("n{}c{}h{}w{}_{}_{}", c.N, c.C, c.H, c.W,
                     name_of(c.layout), name_of(c.dtype));
}

class PoolTest : public testing::TestWithParam<PoolCase> {
 protected:
  const PoolCase c = GetParam();
  const Layout layout =
      test_device().kind() == DeviceKind::kCpu ? c.layout : Layout::kNhwc;
  const double storage = epsilon_of(c.dtype);
  const Shape shape{c.N, c.C, c.H, c.W};
  GuardedTensor x{c.dtype, shape, layout, random_values(shape.elems(), 1)};
  GuardedTensor dx{c.dtype, shape, layout};
  TestContext test;
};

TEST_P(PoolTest, GlobalAverage) {
  GuardedTensor y(DType::kF32, {c.N, c.C});
  std::vector<double> expected(static_cast<size_t>(c.N * c.C));
  const auto values = x.get();
  const auto pixels = static_cast<size_t>(c.H * c.W);
  for (size_t i = 0; i < values.size(); ++i)
    expected[i / pixels] += values[i] / static_cast<double>(pixels);
  global_average_pool_forward(test.context, y, x);
  // A mean of values below 1 in fp32.
  EXPECT_TRUE(all_near(y.get(), expected, {16 * kEpsilonF32, 0}));

  y.set(random_values(c.N * c.C, 2));
  const auto dy = y.get();
  std::vector<double> gradient(values.size());
  for (size_t i = 0; i < values.size(); ++i)
    gradient[i] = dy[i / pixels] / static_cast<double>(pixels);
  global_average_pool_backward(test.context, dx, y);
  EXPECT_TRUE(all_near(dx.get(), gradient, {0, storage + 2 * kEpsilonF32}));
}

TEST_P(PoolTest, Max) {
  for (const PoolSize size : {PoolSize{3, 2, 1}, PoolSize{2, 2, 0},
                              PoolSize{3, 1, 1}, PoolSize{2, 3, 1}}) {
    if (c.H + 2 * size.pad < size.window || c.W + 2 * size.pad < size.window)
      continue;
    const reference::Pool pool{c.N * c.C,   c.H,         c.W,
                               size.window, size.stride, size.pad};
    // Few distinct values, so that there are ties.
    auto values = random_values(shape.elems(), 3);
    for (double& value : values) value = std::round(value * 4) - 5;
    x.set(values);
    const auto expected = reference::max_pool_forward(pool, values);
    const Shape pooled{c.N, c.C, pool.P(), pool.Q()};
    GuardedTensor y(c.dtype, pooled, layout),
        argmax(DType::kU8, pooled, layout);
    max_pool_forward(test.context, y, argmax, x, size);
    EXPECT_EQ(y.get(), expected.y);
    EXPECT_EQ(argmax.get(), expected.argmax);

    y.set(random_values(pooled.elems(), 4));
    const auto gradient =
        reference::max_pool_backward(pool, y.get(), expected.argmax);
    max_pool_backward(test.context, dx, y, argmax, size);
    // Up to nine terms below 1.
    EXPECT_TRUE(all_near(dx.get(), gradient, {16 * kEpsilonF32, storage}));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes,
    PoolTest,
    testing::Values(PoolCase{1, 3, 5, 7, Layout::kNhwc, DType::kF32},
                    PoolCase{3, 16, 7, 5, Layout::kNchw16c, DType::kF32},
                    PoolCase{3, 32, 9, 9, Layout::kNchw16c, DType::kBf16},
                    PoolCase{3, 17, 5, 5, Layout::kNhwc, DType::kBf16},
                    PoolCase{2, 48, 6, 8, Layout::kNhwc, DType::kF32},
                    PoolCase{2, 5, 4, 3, Layout::kRowMajor, DType::kF32},
                    PoolCase{1, 1, 1, 1, Layout::kNhwc, DType::kF32},
                    PoolCase{5, 64, 33, 17, Layout::kNchw16c, DType::kF32},
                    // More channels than a GPU's block takes at a time.
                    PoolCase{2, 320, 5, 3, Layout::kNhwc, DType::kBf16},
                    PoolCase{1, 160, 4, 7, Layout::kNhwc, DType::kF32},
                    PoolCase{2, 37, 5, 4, Layout::kNhwc, DType::kF32},
                    // More images than a GPU's grid has blocks.
                    PoolCase{2100, 3, 1, 2, Layout::kNhwc, DType::kF32}),
    name_of_case);

TEST(Pool, NanWins) {
  TestContext test;
  const Layout layout = preferred_layout(test.device, DType::kF32, 16);
  GuardedTensor x(DType::kF32, {1, 16, 2, 2}, layout);
  auto values = random_values(64, 1);
  values[2] = std::nan("");
  x.set(values);
  GuardedTensor y(DType::kF32, {1, 16, 1, 1}, layout);
  GuardedTensor argmax(DType::kU8, {1, 16, 1, 1}, layout);
  max_pool_forward(test.context, y, argmax, x, {2, 2, 0});
  EXPECT_TRUE(std::isnan(y.get()[0]));
  EXPECT_EQ(argmax.get()[0], 2);
  EXPECT_FALSE(std::isnan(y.get()[1]));
}

// A window of nothing but -infinity chooses its first position in the image.
TEST(Pool, MinusInfinityIsAValue) {
  TestContext test;
  const Layout layout = preferred_layout(test.device, DType::kF32, 16);
  GuardedTensor x(DType::kF32, {1, 16, 3, 3}, layout,
                  std::vector<double>(16 * 9, -HUGE_VAL));
  GuardedTensor y(DType::kF32, {1, 16, 2, 2}, layout);
  GuardedTensor argmax(DType::kU8, {1, 16, 2, 2}, layout);
  max_pool_forward(test.context, y, argmax, x, {3, 2, 1});
  const auto expected =
      reference::max_pool_forward({16, 3, 3, 3, 2, 1}, x.get());
  EXPECT_EQ(y.get(), expected.y);
  EXPECT_EQ(argmax.get(), expected.argmax);
  EXPECT_EQ(argmax.get()[0], 4);  // the upper left window starts outside
}

// Memory that begins between two packs of channels.
TEST(Pool, AnyElementMayBeTheFirst) {
  TestContext test;
  const Shape shape{2, 16, 5, 4}, pooled{2, 16, 3, 2};
  const GuardedTensor aligned(DType::kF32, shape, Layout::kNhwc,
                              random_values(shape.elems(), 1));
  GuardedTensor y(DType::kF32, pooled, Layout::kNhwc),
      argmax(DType::kU8, pooled, Layout::kNhwc), mean(DType::kF32, {2, 16});
  max_pool_forward(test.context, y, argmax, aligned, {3, 2, 1});
  global_average_pool_forward(test.context, mean, aligned);

  const GuardedTensor memory(DType::kF32, {shape.elems() + 1});
  Tensor x = aligned;
  x.data = memory.tensor().f32() + 1;
  test.device.copy(x.data, aligned.tensor().data, x.bytes(), *test.stream);
  GuardedTensor y_again(DType::kF32, pooled, Layout::kNhwc),
      argmax_again(DType::kU8, pooled, Layout::kNhwc),
      mean_again(DType::kF32, {2, 16});
  max_pool_forward(test.context, y_again, argmax_again, x, {3, 2, 1});
  global_average_pool_forward(test.context, mean_again, x);
  EXPECT_EQ(y_again.bytes(), y.bytes());
  EXPECT_EQ(argmax_again.bytes(), argmax.bytes());
  // Pixels in another order.
  EXPECT_TRUE(all_near(mean_again.get(), mean.get(), {16 * kEpsilonF32, 0}));

  GuardedTensor dx(DType::kF32, shape, Layout::kNhwc);
  max_pool_backward(test.context, dx, y, argmax, {3, 2, 1});
  max_pool_backward(test.context, x, y, argmax, {3, 2, 1});
  test.device.copy(aligned.tensor().data, x.data, x.bytes(), *test.stream);
  EXPECT_EQ(aligned.bytes(), dx.bytes());
  global_average_pool_backward(test.context, dx, mean);
  global_average_pool_backward(test.context, x, mean);
  test.device.copy(aligned.tensor().data, x.data, x.bytes(), *test.stream);
  EXPECT_EQ(aligned.bytes(), dx.bytes());
  EXPECT_TRUE(std::isnan(memory.get()[0]));
}

}  // namespace
}  // namespace syncopate
