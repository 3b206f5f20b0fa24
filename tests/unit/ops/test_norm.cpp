#include "ops/norm.h"

#include <cmath>
#include <string>

#include "ops/conv.h"
#include "ops/elementwise.h"
#include "reference/reference.h"
#include "support/guarded_tensor.h"
#include "support/test_device.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

struct NormShape {
  int64_t N, C, H, W;
};
struct NormCase {
  NormShape s;
  Layout layout = Layout::kNhwc;
  DType dtype = DType::kF32;
  Activation activation = Activation::kNone;
  bool has_z = false;
};

// One call of forward and backward with everything they write.
struct NormRun : NormCase {
  BatchNormParams params;
  Shape shape{s.N, s.C, s.H, s.W};
  GuardedTensor x{dtype, shape, layout}, z{dtype, shape, layout},
      y{dtype, shape, layout}, dy{dtype, shape, layout},
      dx{dtype, shape, layout}, dz{dtype, shape, layout};
  GuardedTensor gamma = channel(1), beta = channel(2), mean = channel(0),
                rstd = channel(0), running_mean = channel(3),
                running_var = channel(4), dgamma = channel(5),
                dbeta = channel(6);

  explicit NormRun(const NormCase& c) : NormCase(c) {
    params.activation = activation;
    // A mean far from zero: squares must not cancel.
    auto values = random_values(shape.elems(), 10);
    for (double& value : values) value += 8;
    x.set(values);
    z.set(random_values(shape.elems(), 11));
    dy.set(random_values(shape.elems(), 12));
  }
  GuardedTensor channel(uint64_t seed) const {
    return random_tensor({s.C}, seed);
  }
  ConstTensor residual() const {
    return has_z ? ConstTensor(z) : ConstTensor();
  }
  BatchNormForwardArgs forward_args() {
    return {.y = y,
            .mean = mean,
            .rstd = rstd,
            .running_mean = running_mean,
            .running_var = running_var,
            .x = x,
            .gamma = gamma,
            .beta = beta,
            .z = residual(),
            .params = params};
  }
  BatchNormBackwardArgs backward_args() {
    return {.dx = dx,
            .dz = has_z ? dz.tensor() : Tensor(),
            .dgamma = dgamma,
            .dbeta = dbeta,
            .dy = dy,
            .x = x,
            .y = y,
            .gamma = gamma,
            .beta = beta,
            .mean = mean,
            .rstd = rstd,
            .params = params};
  }
  void forward(Context& context) { batchnorm_forward(context, forward_args()); }
  void backward(Context& context) {
    batchnorm_backward(context, backward_args());
  }
  void inference(Context& context, Tensor to) {
    batchnorm_inference(context, {.y = to,
                                  .x = x,
                                  .running_mean = running_mean,
                                  .running_var = running_var,
                                  .gamma = gamma,
                                  .beta = beta,
                                  .z = residual(),
                                  .params = params});
  }
  reference::BatchNorm formula() const {
    return {s.N, s.C, s.H * s.W, static_cast<double>(params.epsilon),
            params.activation == Activation::kRelu};
  }
  double rows() const { return static_cast<double>(s.N * s.H * s.W); }
};

// GPUs support only one layout.
std::vector<Layout> layouts_of(const NormShape& s) {
  std::vector<Layout> layouts = {Layout::kNhwc};
  if (test_device().kind() != DeviceKind::kCpu) return layouts;
  layouts.push_back(Layout::kRowMajor);
  if (s.C % 16 == 0) layouts.push_back(Layout::kNchw16c);
  return layouts;
}

class NormTest : public testing::TestWithParam<NormShape> {
 protected:
  TestContext test;
  // body(case) with every layout, element type, activation and residual.
  template <typename Body>
  void for_cases(const Body& body) {
    for (const Layout layout : layouts_of(GetParam()))
      for (const DType dtype : {DType::kF32, DType::kBf16})
        for (const Activation activation :
             {Activation::kNone, Activation::kRelu})
          for (const bool has_z : {false, true}) {
            SCOPED_TRACE(fmt::format("{} {} activation {} residual {}",
                                     name_of(layout), name_of(dtype),
                                     static_cast<int>(activation), has_z));
            body(NormCase{GetParam(), layout, dtype, activation, has_z});
          }
  }
};

TEST_P(NormTest, Forward) {
  for_cases([&](const NormCase& c) {
    NormRun run(c);
    const auto expected = reference::batchnorm_forward(
        run.formula(), run.x.get(), run.gamma.get(), run.beta.get(),
        run.has_z ? run.z.get() : reference::Values());
    auto running_mean = run.running_mean.get();
    auto running_var = run.running_var.get();
    run.forward(test.context);
    const double n = run.rows();
    for (size_t i = 0; i < running_mean.size(); ++i) {
      running_mean[i] += 0.1 * (expected.mean[i] - running_mean[i]);
      running_var[i] +=
          0.1 *
          (expected.variance[i] * (n > 1 ? n / (n - 1) : 1) - running_var[i]);
    }
    // A mean of 8 with an error of some units in the last place, divided by the
    // deviation: at worst 1 / sqrt(epsilon) where a channel has one value.
    const double rstd_largest = largest_magnitude(expected.rstd);
    const double x_error = 8 * 8 * kEpsilonF32;
    EXPECT_TRUE(all_near(run.mean.get(), expected.mean, {x_error, 0}));
    EXPECT_TRUE(all_near(run.running_mean.get(), running_mean, {x_error, 0}));
    EXPECT_TRUE(all_near(run.running_var.get(), running_var, {x_error, 1e-6}));
    // d rstd = rstd^3 d var / 2
    EXPECT_TRUE(all_near(run.rstd.get(), expected.rstd,
                         {0, 1e-6 + rstd_largest * rstd_largest * 1e-12}));
    EXPECT_TRUE(all_near(run.y.get(), expected.y,
                         {x_error * rstd_largest, 2 * epsilon_of(run.dtype)}));
  });
}

TEST_P(NormTest, Backward) {
  for_cases([&](const NormCase& c) {
    NormRun run(c);
    run.forward(test.context);
    const auto expected = reference::batchnorm_backward(
        run.formula(), run.dy.get(), run.x.get(), run.y.get(), run.gamma.get(),
        run.mean.get(), run.rstd.get());
    auto dgamma = run.dgamma.get(), dbeta = run.dbeta.get();
    for (size_t i = 0; i < dgamma.size(); ++i) {
      dgamma[i] += expected.dgamma[i];
      dbeta[i] += expected.dbeta[i];
    }
    run.backward(test.context);
    const double rstd = largest_magnitude(run.rstd.get());
    const double n = run.rows();
    // Sums of n terms below 1 (below rstd for dgamma) in fp32 streams.
    const double sum_error = 8 * kEpsilonF32 * std::sqrt(n);
    EXPECT_TRUE(all_near(run.dbeta.get(), dbeta, {sum_error + 1e-6, 0}));
    EXPECT_TRUE(
        all_near(run.dgamma.get(), dgamma, {(sum_error + 1e-6) * rstd, 0}));
    // Terms of size rstd cancel.
    EXPECT_TRUE(all_near(run.dx.get(), expected.dx,
                         {32 * kEpsilonF32 * rstd, 2 * epsilon_of(run.dtype)}));
    if (run.has_z) {
      EXPECT_TRUE(all_near(run.dz.get(), expected.dz, {0, 0}));  // a selection
    }
  });
}

TEST_P(NormTest, InferenceUsesTheRunningStatistics) {
  for_cases([&](const NormCase& c) {
    NormRun run(c);
    const auto mean = run.running_mean.get(), gamma = run.gamma.get();
    auto variance = run.running_var.get();
    for (double& v : variance) v += 2;
    run.running_var.set(variance);
    auto expected = run.x.get();
    const auto z = run.z.get(), beta = run.beta.get();
    const int64_t pixels = run.s.H * run.s.W;
    for (size_t i = 0; i < expected.size(); ++i) {
      const size_t k = i / static_cast<size_t>(pixels) % mean.size();
      double& v = expected[i];
      v = gamma[k] * (v - mean[k]) / std::sqrt(variance[k] + 1e-5) + beta[k];
      if (run.has_z) v += z[i];
      if (run.params.activation == Activation::kRelu && v < 0) v = 0;
    }
    run.inference(test.context, run.y);
    // Values up to 10, a handful of fp32 operations.
    const Tolerance tolerance{10 * 8 * kEpsilonF32, 2 * epsilon_of(run.dtype)};
    EXPECT_TRUE(all_near(run.y.get(), expected, tolerance));
    // In place.
    run.inference(test.context, run.x);
    EXPECT_EQ(run.x.bytes(), run.y.bytes());
  });
}

// The same bits as of the sum that add() makes; dx may take the second's place.
TEST_P(NormTest, TwoUpstreamGradientsAreAdded) {
  for_cases([&](const NormCase& c) {
    NormRun run(c), other(c);
    GuardedTensor dy2(c.dtype, run.shape, c.layout);
    dy2.set(random_values(run.shape.elems(), 13));
    run.forward(test.context);
    add(test.context, run.dy, run.dy, dy2);
    run.backward(test.context);
    other.forward(test.context);
    BatchNormBackwardArgs args = other.backward_args();
    args.dy2 = dy2;
    args.dx = dy2;
    if (other.has_z) args.dz = other.dy;
    batchnorm_backward(test.context, args);
    EXPECT_EQ(dy2.bytes(), run.dx.bytes());
    if (run.has_z) {
      EXPECT_EQ(other.dy.bytes(), run.dz.bytes());
    }
    EXPECT_EQ(other.dgamma.bytes(), run.dgamma.bytes());
    EXPECT_EQ(other.dbeta.bytes(), run.dbeta.bytes());
  });
}

// Where the activation was positive follows from x, unless there is a residual.
TEST_P(NormTest, OutputIsReadWithAResidualOnly) {
  for_cases([&](const NormCase& c) {
    if (c.has_z) return;
    NormRun run(c), other(c);
    run.forward(test.context);
    run.backward(test.context);
    other.forward(test.context);
    BatchNormBackwardArgs args = other.backward_args();
    args.y = {};
    batchnorm_backward(test.context, args);
    EXPECT_EQ(other.dx.bytes(), run.dx.bytes());
    EXPECT_EQ(other.dgamma.bytes(), run.dgamma.bytes());
  });
}

// A mask in bits has the sign of every element of y and replaces y, to the bit.
TEST_P(NormTest, MaskReplacesTheOutput) {
  for_cases([&](const NormCase& c) {
    if (!has_relu_mask(test_device().kind(), c.dtype, c.s.C) || !c.has_z ||
        c.activation != Activation::kRelu)
      return;
    NormRun run(c), other(c);
    run.forward(test.context);
    run.backward(test.context);
    const GuardedTensor mask(DType::kU8, {run.shape.elems() / 8});
    BatchNormForwardArgs forward = other.forward_args();
    forward.mask = mask;
    batchnorm_forward(test.context, forward);
    EXPECT_EQ(other.y.bytes(), run.y.bytes());
    const auto bits = mask.bytes(), ys = run.y.bytes();
    for (size_t i = 0; i < ys.size() / 2; ++i) {
      const bool is_zero = ys[2 * i] == 0 && (ys[2 * i + 1] & 0x7F) == 0;
      const bool is_positive = !is_zero && (ys[2 * i + 1] & 0x80) == 0;
      ASSERT_EQ((bits[i / 8] >> (i % 8) & 1) != 0, is_positive) << i;
    }
    for (const bool has_sum : {false, true}) {
      GuardedTensor dy2(c.dtype, run.shape, c.layout);
      dy2.set(random_values(run.shape.elems(), 13));
      BatchNormBackwardArgs backward = run.backward_args(),
                            by_mask = other.backward_args();
      by_mask.y = {};
      by_mask.mask = mask;
      if (has_sum) backward.dy2 = by_mask.dy2 = dy2;
      for (NormRun* one : {&run, &other}) {
        one->dgamma.set(random_values(c.s.C, 5));
        one->dbeta.set(random_values(c.s.C, 6));
      }
      batchnorm_backward(test.context, backward);
      batchnorm_backward(test.context, by_mask);
      EXPECT_EQ(other.dx.bytes(), run.dx.bytes());
      EXPECT_EQ(other.dz.bytes(), run.dz.bytes());
      EXPECT_EQ(other.dgamma.bytes(), run.dgamma.bytes());
      EXPECT_EQ(other.dbeta.bytes(), run.dbeta.bytes());
    }
  });
}

TEST_P(NormTest, InPlaceGradientsAreTheSame) {
  for_cases([&](const NormCase& c) {
    NormRun run(c);
    run.forward(test.context);
    NormRun other(c);
    other.forward(test.context);
    run.backward(test.context);
    // dx over dy; with a residual dz over dy, as the header allows.
    BatchNormBackwardArgs args = other.backward_args();
    (other.has_z ? args.dz : args.dx) = other.dy;
    batchnorm_backward(test.context, args);
    EXPECT_EQ((other.has_z ? other.dx : other.dy).bytes(), run.dx.bytes());
    if (run.has_z) {
      EXPECT_EQ(other.dy.bytes(), run.dz.bytes());
    }
    EXPECT_EQ(other.dgamma.bytes(), run.dgamma.bytes());
  });
}

// Nor, on a GPU, on the order in which blocks happen to run.
TEST_P(NormTest, BitsDoNotDependOnThreads) {
  for_cases([&](const NormCase& c) {
    NormRun run(c);
    run.forward(test.context);
    run.backward(test.context);
    for (const int threads : {1, 3}) {
      TestContext others(threads);
      NormRun again(c);
      again.forward(others.context);
      again.backward(others.context);
      EXPECT_EQ(again.y.bytes(), run.y.bytes());
      EXPECT_EQ(again.dx.bytes(), run.dx.bytes());
      EXPECT_EQ(again.dgamma.bytes(), run.dgamma.bytes());
      EXPECT_EQ(again.dbeta.bytes(), run.dbeta.bytes());
      EXPECT_EQ(again.running_var.bytes(), run.running_var.bytes());
    }
  });
}

// The last seven have several chunks of rows and a ragged last one on the CPU
// or a GPU; c160 and c37 more channels than a GPU's block takes at a time, with
// and without packs of channels.
INSTANTIATE_TEST_SUITE_P(Shapes,
                         NormTest,
                         testing::Values(NormShape{1, 3, 5, 7},
                                         NormShape{3, 16, 3, 5},
                                         NormShape{3, 17, 1, 3},
                                         NormShape{3, 48, 7, 5},
                                         NormShape{1, 1, 1, 9},
                                         NormShape{5, 32, 17, 19},
                                         NormShape{2, 3, 31, 33},
                                         NormShape{65, 16, 5, 5},
                                         NormShape{2, 160, 9, 7},
                                         NormShape{3, 37, 7, 11},
                                         NormShape{1, 288, 5, 13},
                                         NormShape{1, 40, 1, 211}),
                         [](const auto& info) {
                           const NormShape& s = info.param;
                           return fmt::format("n{}c{}h{}w{}", s.N, s.C, s.H,
                                              s.W);
                         });

TEST(Norm, TwoDimensionsCountAsOnePixel) {
  TestContext test;
  NormRun run({.s = {7, 5, 1, 1}, .activation = Activation::kRelu});
  run.forward(test.context);
  GuardedTensor y(DType::kF32, {7, 5});
  const Tensor flat =
      make_tensor(run.x.tensor().data, DType::kF32, Shape{7, 5});
  BatchNormForwardArgs args = run.forward_args();
  args.y = y;
  args.x = flat;
  batchnorm_forward(test.context, args);
  EXPECT_EQ(y.bytes(), run.y.bytes());
}

// Memory that begins between two packs of channels, as slices of a range may.
TEST(Norm, AnyElementMayBeTheFirst) {
  TestContext test;
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    SCOPED_TRACE(name_of(dtype));
    const NormCase norm_case{
        .s = {70, 16, 1, 3}, .dtype = dtype, .activation = Activation::kRelu};
    NormRun run(norm_case), other(norm_case);
    // The same rows one element later.
    const auto shifted = [&](const GuardedTensor& whole) {
      Tensor part = run.x;
      part.data = static_cast<char*>(whole.tensor().data) + bytes_of(dtype);
      return part;
    };
    GuardedTensor x(dtype, {run.shape.elems() + 1}),
        y(dtype, {run.shape.elems() + 1});
    const GuardedTensor dx(dtype, {run.shape.elems() + 1});
    test.device.copy(shifted(x).data, run.x.tensor().data,
                     run.x.tensor().bytes(), *test.stream);
    run.forward(test.context);
    run.backward(test.context);
    const auto y_aligned = run.y.get(), dx_aligned = run.dx.get();
    BatchNormForwardArgs forward = other.forward_args();
    forward.y = shifted(y);
    forward.x = shifted(x);
    batchnorm_forward(test.context, forward);
    test.device.copy(other.y.tensor().data, shifted(y).data,
                     other.y.tensor().bytes(), *test.stream);
    BatchNormBackwardArgs backward = other.backward_args();
    backward.dx = shifted(dx);
    backward.x = shifted(x);
    backward.y = shifted(y);
    batchnorm_backward(test.context, backward);
    test.device.copy(other.dx.tensor().data, shifted(dx).data,
                     other.dx.tensor().bytes(), *test.stream);
    // Sums in another order; where that flips a rounding, one unit of storage.
    EXPECT_TRUE(all_near(other.y.get(), y_aligned,
                         {64 * 8 * kEpsilonF32, 2 * epsilon_of(run.dtype)}));
    EXPECT_TRUE(all_near(other.dx.get(), dx_aligned,
                         {64 * kEpsilonF32, 2 * epsilon_of(run.dtype)}));
    // What precedes the first element is untouched: 0xFF bytes, a NaN.
    EXPECT_TRUE(std::isnan(y.get()[0]) && std::isnan(dx.get()[0]));
  }
}

// More rows and groups of channels than a GPU has blocks: chunks grow.
TEST(Norm, ManyRowsAndChannels) {
  TestContext test;
  NormRun run({.s = {2001, 1187, 1, 1}});
  const auto expected = reference::batchnorm_forward(
      run.formula(), run.x.get(), run.gamma.get(), run.beta.get(), {});
  run.forward(test.context);
  // Streams of over a hundred values around 8, and of a sum of some tens.
  EXPECT_TRUE(all_near(run.mean.get(), expected.mean, {256 * kEpsilonF32, 0}));
  EXPECT_TRUE(all_near(run.rstd.get(), expected.rstd, {0, 2e-6}));
  auto dbeta = run.dbeta.get();
  const auto dy = run.dy.get();
  for (size_t i = 0; i < dy.size(); ++i) dbeta[i % 1187] += dy[i];
  run.backward(test.context);
  EXPECT_TRUE(all_near(run.dbeta.get(), dbeta,
                       {32 * kEpsilonF32 * std::sqrt(run.rows()), 0}));
}

// The variance of values around 1000 with a deviation of 0.01: a formula with
// squares of fp32 would give nonsense.
TEST(Norm, LargeMeanKeepsTheVariance) {
  TestContext test;
  NormRun run({.s = {8, 16, 32, 32},
               .layout = preferred_layout(test.device, DType::kF32, 16)});
  auto values = random_values(run.shape.elems(), 10);
  for (double& value : values) value = 1000 + 0.01 * value;
  run.x.set(values);
  const auto expected = reference::batchnorm_forward(
      run.formula(), run.x.get(), run.gamma.get(), run.beta.get(), {});
  run.forward(test.context);
  // rstd depends on var + epsilon = 3e-5 + 1e-5; deviations are off by at most
  // one unit of 1000 (6e-5) around the chunk's mean, which adds 1e-9 to var.
  EXPECT_TRUE(all_near(run.rstd.get(), expected.rstd, {0, 1e-3}));
}

TEST(Norm, ReluLetsNanThrough) {
  TestContext test;
  NormRun run({.s = {1, 16, 3, 3},
               .layout = preferred_layout(test.device, DType::kF32, 16),
               .activation = Activation::kRelu});
  auto values = random_values(run.shape.elems(), 10);
  values[0] = std::nan("");
  run.x.set(values);
  run.forward(test.context);
  EXPECT_TRUE(std::isnan(run.y.get()[1]));   // same channel
  EXPECT_FALSE(std::isnan(run.y.get()[9]));  // the next one
}

}  // namespace
}  // namespace syncopate
