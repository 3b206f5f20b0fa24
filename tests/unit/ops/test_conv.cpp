#include <cmath>
#include <string>

#include "device/device.h"
#include "ops/conv.h"
#include "ops/elementwise.h"
#include "ops/library.h"
#include "reference/reference.h"
#include "support/guarded_tensor.h"
#include "support/test_device.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

struct Storage {
  DType x_dtype, y_dtype;
  Layout x_layout, y_layout;
  bool is_fp32() const {
    return x_dtype == DType::kF32 && y_dtype == DType::kF32;
  }
};

bool is_on_cpu() {
  return test_device().kind() == DeviceKind::kCpu;
}

// Every layout and element type that the device and the channels allow.
std::vector<Storage> storages_of(const ConvSize& s) {
  std::vector<Storage> all;
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    if (dtype == DType::kBf16 && !has_bf16()) continue;
    all.push_back({dtype, dtype, Layout::kNhwc, Layout::kNhwc});
    if (s.K % 16 != 0 || !is_on_cpu() || !cpu_has_blocks_of_16()) continue;
    all.push_back({dtype, dtype, Layout::kNhwc, Layout::kNchw16c});
    all.push_back({DType::kF32, dtype, Layout::kRowMajor, Layout::kNchw16c});
    if (s.C % 16 != 0) continue;
    all.push_back({dtype, dtype, Layout::kNchw16c, Layout::kNchw16c});
    all.push_back({dtype, dtype, Layout::kNchw16c, Layout::kNhwc});
  }
  return all;
}

// fp32: partial sums of random terms grow like sqrt(terms), and each addition
// is rounded in proportion, so the deviation is 2^-24 terms / 7 for a direct
// sum; Winograd F(4x4, 3x3) loses about three more bits (Barabasz et al. 2020).
// bf16: the result is rounded once, relative to its own size; sums are fp32;
// filters are rounded to bf16, which gives each product half a unit.
Tolerance tolerance_of(const Storage& c, int64_t terms, bool is_dw) {
  const double fp32 = 4 * kEpsilonF32 * static_cast<double>(16 + terms);
  if (c.is_fp32()) return {fp32, 0};
  const double walk = std::sqrt(static_cast<double>(terms));
  // dw: x and dy are exact in bf16 unless one of them arrives as fp32.
  const bool is_exact = is_dw && c.x_dtype == c.y_dtype;
  return {is_exact ? fp32 : 2 * kEpsilonBf16 * walk, is_dw ? 0 : kEpsilonBf16};
}

class ConvTest : public testing::TestWithParam<ConvSize> {
 protected:
  const ConvSize s = GetParam();
  const reference::Conv conv{s.N, s.C, s.H,      s.W,  s.K,
                             s.R, s.S, s.stride, s.pad};
  const Shape x_shape{s.N, s.C, s.H, s.W}, y_shape{s.N, s.K, s.P(), s.Q()};
  const Shape w_shape{s.K, s.C, s.R, s.S};
  TestContext test;
  GuardedTensor w{DType::kF32, w_shape, random_values(w_shape.elems(), 1)};

  // body(storage, x, y) with random images and results.
  template <typename Body>
  void for_storages(const Body& body) {
    for (const Storage& c : storages_of(s)) {
      SCOPED_TRACE(fmt::format("{} {} -> {} {}", name_of(c.x_dtype),
                               name_of(c.x_layout), name_of(c.y_dtype),
                               name_of(c.y_layout)));
      GuardedTensor x(c.x_dtype, x_shape, c.x_layout,
                      random_values(x_shape.elems(), 2));
      GuardedTensor y(c.y_dtype, y_shape, c.y_layout,
                      random_values(y_shape.elems(), 3));
      body(c, x, y);
    }
  }
};

TEST_P(ConvTest, ForwardIsTheSum) {
  for_storages([&](const Storage& c, GuardedTensor& x, GuardedTensor& y) {
    const auto expected = reference::conv_forward(conv, x.get(), w.get());
    for (int repeat = 0; repeat < 2; ++repeat) {  // made, then from the cache
      conv_forward(test.context, y, x, w, s);
      EXPECT_TRUE(
          all_near(y.get(), expected, tolerance_of(c, s.C * s.R * s.S, false)));
    }
  });
}

TEST_P(ConvTest, BackwardDataAssigns) {
  for_storages([&](const Storage& c, GuardedTensor& x, GuardedTensor& y) {
    const auto expected = reference::conv_backward_data(conv, y.get(), w.get());
    for (int repeat = 0; repeat < 2; ++repeat) {
      conv_backward_data(test.context, x, y, w, s);
      EXPECT_TRUE(
          all_near(x.get(), expected, tolerance_of(c, s.K * s.R * s.S, false)));
    }
  });
}

TEST_P(ConvTest, BackwardWeightsAccumulates) {
  for_storages([&](const Storage& c, GuardedTensor& x, GuardedTensor& y) {
    const auto once = reference::conv_backward_weights(conv, x.get(), y.get());
    auto expected = random_values(w_shape.elems(), 4);
    GuardedTensor dw(DType::kF32, w_shape, expected);
    Tolerance tolerance = tolerance_of(c, s.N * s.P() * s.Q(), true);
    // A GPU's library gives the gradient of a bf16 pass in bf16.
    if (!is_on_cpu() && !c.is_fp32())
      tolerance.absolute += kEpsilonBf16 * largest_magnitude(once);
    for (int repeat = 1; repeat <= 2; ++repeat) {
      conv_backward_weights(test.context, dw, x, y, s);
      for (size_t i = 0; i < once.size(); ++i) expected[i] += once[i];
      EXPECT_TRUE(all_near(dw.get(), expected,
                           {repeat * tolerance.absolute, 2 * kEpsilonF32}));
    }
  });
}

TEST_P(ConvTest, RepeatsToTheBit) {
  for_storages([&](const Storage&, GuardedTensor& x, GuardedTensor& y) {
    std::vector<char> first;
    for (int repeat = 0; repeat < 2; ++repeat) {
      TestContext fresh;
      GuardedTensor dw(
          DType::kF32, w_shape,
          std::vector<double>(static_cast<size_t>(w_shape.elems())));
      conv_backward_weights(fresh.context, dw, x, y, s);
      if (repeat == 0) first = dw.bytes();
      EXPECT_EQ(dw.bytes(), first);
    }
  });
}

// Channels of zeros behind those of a bf16 image add nothing; the order of sums
// may be another one.
TEST_P(ConvTest, PaddedChannelsAddNothing) {
  if (is_on_cpu() || s.C % 8 == 0) return;
  const GuardedTensor image(DType::kF32, x_shape, Layout::kNhwc,
                            random_values(x_shape.elems(), 2));
  const GuardedTensor x(DType::kBf16, x_shape, Layout::kNhwc),
      padded(DType::kBf16, {s.N, padded_channels(s.C), s.H, s.W},
             Layout::kNhwc),
      dy(DType::kBf16, y_shape, Layout::kNhwc,
         random_values(y_shape.elems(), 3)),
      y(DType::kBf16, y_shape, Layout::kNhwc),
      y_of_padded(DType::kBf16, y_shape, Layout::kNhwc);
  reorder(test.context, x, image);
  pad_channels(test.context, padded, image);
  conv_forward(test.context, y, x, w, s);
  conv_forward(test.context, y_of_padded, padded, w, s);
  const double terms = 4 * kEpsilonF32 * static_cast<double>(s.C * s.R * s.S);
  EXPECT_TRUE(all_near(y_of_padded.get(), y.get(), {terms, 2 * kEpsilonBf16}));
  const GuardedTensor dw = random_tensor(w_shape, 4),
                      dw_of_padded = random_tensor(w_shape, 4);
  conv_backward_weights(test.context, dw, x, dy, s);
  conv_backward_weights(test.context, dw_of_padded, padded, dy, s);
  const double largest = largest_magnitude(dw.get());
  EXPECT_TRUE(all_near(dw_of_padded.get(), dw.get(),
                       {2 * kEpsilonBf16 * largest, 2 * kEpsilonF32}));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes,
    ConvTest,
    // h27 is large enough for Winograd.
    testing::Values(ConvSize{1, 1, 5, 5, 16, 3, 3, 1, 1},
                    ConvSize{3, 3, 9, 7, 16, 3, 3, 1, 1},
                    ConvSize{3, 3, 17, 15, 32, 7, 7, 2, 3},
                    ConvSize{3, 16, 7, 9, 16, 3, 3, 1, 1},
                    ConvSize{1, 16, 9, 7, 32, 3, 3, 2, 1},
                    ConvSize{3, 16, 9, 9, 32, 1, 1, 2, 0},
                    ConvSize{3, 17, 7, 5, 5, 3, 3, 1, 1},
                    ConvSize{1, 32, 5, 5, 48, 1, 1, 1, 0},
                    ConvSize{3, 48, 5, 7, 32, 3, 3, 1, 1},
                    ConvSize{3, 32, 27, 26, 32, 3, 3, 1, 1},
                    ConvSize{2, 16, 6, 6, 16, 3, 3, 1, 0},
                    ConvSize{1, 3, 12, 12, 17, 5, 5, 3, 2},
                    ConvSize{2, 5, 6, 6, 3, 2, 2, 2, 0},
                    ConvSize{4, 12, 16, 16, 10, 1, 1, 2, 0},
                    ConvSize{2, 4, 9, 7, 4, 1, 1, 2, 0},
                    ConvSize{1, 3, 8, 8, 16, 1, 1, 3, 0},
                    ConvSize{1, 16, 1, 1, 16, 3, 3, 1, 1},
                    ConvSize{2, 16, 2, 1, 32, 3, 3, 2, 1},
                    ConvSize{2, 16, 7, 1, 32, 7, 7, 2, 3}),
    [](const auto& info) {
      const ConvSize& s = info.param;
      return fmt::format("n{}c{}h{}w{}k{}r{}s{}stride{}pad{}", s.N, s.C, s.H,
                         s.W, s.K, s.R, s.S, s.stride, s.pad);
    });

TEST(Conv, ShapesThatDisagreeAreRefused) {
  TestContext test;
  const GuardedTensor x(DType::kF32, {1, 16, 5, 5}, Layout::kNhwc);
  const GuardedTensor y(DType::kF32, {1, 16, 5, 4}, Layout::kNhwc);
  const GuardedTensor w(DType::kF32, {16, 16, 3, 3});
  EXPECT_THROW(
      conv_forward(test.context, y, x, w, {1, 16, 5, 5, 16, 3, 3, 1, 1}),
      Error);
}

Layout layout_of(DType dtype, int64_t C) {
  return preferred_layout(test_device(), dtype, C);
}

TEST(Conv, BlockedOnTheCpuWhereChannelsFillBlocks) {
  const Layout blocked =
      is_on_cpu() && cpu_has_blocks_of_16() ? Layout::kNchw16c : Layout::kNhwc;
  EXPECT_EQ(layout_of(DType::kF32, 16), blocked);
  EXPECT_EQ(layout_of(DType::kF32, 48), blocked);
  EXPECT_EQ(layout_of(DType::kF32, 3), Layout::kNhwc);
  EXPECT_EQ(layout_of(DType::kF32, 17), Layout::kNhwc);
  EXPECT_EQ(layout_of(DType::kBf16, 3), Layout::kNhwc);
}

TEST(Conv, Bf16IsNotBlockedWhereTheProcessorHasTiles) {
  const bool is_blocked =
      is_on_cpu() && cpu_has_blocks_of_16() && !cpu_has_bf16_tiles();
  EXPECT_EQ(layout_of(DType::kBf16, 32),
            is_blocked ? Layout::kNchw16c : Layout::kNhwc);
}

}  // namespace
}  // namespace syncopate
