#include "ops/augment.h"

#include <cmath>

#include "reference/image_map.h"
#include "support/guarded_tensor.h"
#include "support/test_device.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

struct Case {
  int64_t S, source_H, source_W;  // stored images
  int64_t N, C, H, W;             // out
};

std::vector<double> expected_images(const Case& sizes,
                                    const reference::StoredImages& stored,
                                    const std::vector<ImageMap>& maps) {
  std::vector<double> images;
  for (const ImageMap& map : maps)
    for (int64_t c = 0; c < sizes.C; ++c)
      for (int64_t y = 0; y < sizes.H; ++y)
        for (int64_t x = 0; x < sizes.W; ++x)
          images.push_back(reference::read_pixel(
              stored,
              {{std::begin(map.m), std::end(map.m)},
               map.image,
               static_cast<reference::Beside>(map.outside)},
              x, y, c));
  return images;
}

// Random values in 0..255 for bytes, in [-1, 1] for floats.
GuardedTensor stored_images(const Case& sizes, DType dtype) {
  const Shape shape{sizes.S, sizes.source_H, sizes.source_W, sizes.C};
  auto values = random_values(shape.elems(), 5);
  if (dtype == DType::kU8)
    for (double& value : values) value = std::floor((value + 1) * 127.99);
  return {dtype, shape, values};
}

GuardedTensor per_channel(const std::vector<double>& values) {
  return {DType::kF32, {std::ssize(values)}, values};
}

// Around (cx, cy): rotated by `angle`, `zoom` stored pixels an output pixel.
ImageMap rotation(float angle,
                  float zoom,
                  float cx,
                  float cy,
                  int32_t image,
                  Outside outside) {
  const float c = zoom * std::cos(angle), s = zoom * std::sin(angle);
  return {{c, -s, cx - c * cx + s * cy, s, c, cy - s * cx - c * cy},
          image,
          outside};
}

class Augment : public testing::TestWithParam<Case> {};

TEST_P(Augment, FollowsItsFormula) {
  TestContext test;
  const Case sizes = GetParam();
  std::vector<ImageMap> maps;
  for (int64_t n = 0; n < sizes.N; ++n) {
    const auto turn = static_cast<float>(n);
    maps.push_back(rotation(
        0.3f * turn, 0.5f + 0.2f * static_cast<float>(n % 4), 3.25f, 2.5f,
        static_cast<int32_t>(n * 3 % sizes.S), static_cast<Outside>(n % 3)));
  }
  const DeviceValues<ImageMap> d_maps(maps);
  for (const DType dtype : {DType::kU8, DType::kF32}) {
    const GuardedTensor pixels = stored_images(sizes, dtype);
    std::vector<double> scale, shift;
    for (int64_t c = 0; c < sizes.C; ++c) {
      scale.push_back((dtype == DType::kU8 ? 1.0 / 64 : 2.0) / (1.0 + c % 3));
      shift.push_back(-0.5 + 0.25 * static_cast<double>(c % 5));
    }
    const GuardedTensor images(
        DType::kF32, {sizes.N, sizes.C, sizes.H, sizes.W}, Layout::kNhwc);
    gather_images(test.context, images, pixels, per_channel(scale),
                  per_channel(shift), d_maps);
    // Three roundings of a coordinate move a value by them times what
    // neighbours differ by along each axis, below 5; the sum of four taps of
    // values below 5 has some eight.
    const double reach = 1.1 * static_cast<double>(sizes.H + sizes.W) + 5;
    const double bound = (2 * 3 * reach * 5 + 8 * 5) * kEpsilonF32;
    const auto expected = expected_images(
        sizes,
        {sizes.source_H, sizes.source_W, sizes.C, pixels.get(), scale, shift},
        maps);
    EXPECT_TRUE(all_near(images.get(), expected, {bound, 0}));
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes,
                         Augment,
                         testing::Values(Case{1, 1, 1, 1, 1, 1, 1},
                                         Case{3, 9, 7, 5, 3, 8, 6},
                                         Case{2, 28, 28, 3, 1, 28, 28},
                                         Case{4, 5, 6, 4, 16, 4, 19},
                                         Case{2, 12, 40, 2, 3, 5, 100},
                                         // More rows than blocks of a grid.
                                         Case{2, 4, 4, 9, 3, 230, 2}));

// Crop with padding, and mirrored: whole pixels move without a change of bits,
// and those beside them, which are NaN here, are not read.
TEST(AugmentExact, ShiftsByWholePixelsReadOnePixelEach) {
  TestContext test;
  const int64_t S = 4, W = 5, C = 3;  // images of S rows here
  const Case sizes{1, S, W, 2, C, 3, 4};
  GuardedTensor stored = stored_images(sizes, DType::kF32);
  auto values = stored.get();
  // Out of sample 0: rows 0..2 and columns -1..2, of sample 1: rows 1..3 and
  // columns 3..0 in this order. Column 4 is in none.
  for (int64_t row = 0; row < S; ++row)
    for (int64_t c = 0; c < C; ++c)
      values[static_cast<size_t>((row * W + 4) * C + c)] = std::nan("");
  stored.set(values);
  const std::vector<ImageMap> maps = {
      {{1, 0, -1, 0, 1, 0}, 0, Outside::kMean},
      {{-1, 0, 3, 0, 1, 1}, 0, Outside::kMean},
  };
  const DeviceValues<ImageMap> d_maps(maps);
  const std::vector<double> scale = {2, 0.5, -1}, shift = {0, 0, 0};
  const GuardedTensor images(DType::kF32, {2, C, 3, 4}, Layout::kNhwc);
  gather_images(test.context, images, stored, per_channel(scale),
                per_channel(shift), d_maps);
  const auto got = images.get();
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t c = 0; c < C; ++c)
      for (int64_t y = 0; y < 3; ++y)
        for (int64_t x = 0; x < 4; ++x) {
          const int64_t column = n == 0 ? x - 1 : 3 - x, row = y + n;
          const double expected =
              column < 0
                  ? 0
                  : values[static_cast<size_t>((row * W + column) * C + c)] *
                        scale[static_cast<size_t>(c)];
          EXPECT_EQ(got[static_cast<size_t>(((n * C + c) * 3 + y) * 4 + x)],
                    expected)
              << n << " " << c << " " << y << " " << x;
        }
}

// torchvision: RandomCrop(padding) or RandomRotation, whose fill is 0, then
// Normalize. With a mean of 0.5 and a deviation of 0.25, black is -2.
TEST(AugmentExact, BlackPaddingIsNormalised) {
  TestContext test;
  const GuardedTensor stored(DType::kU8, {1, 2, 2, 1}, {255, 255, 255, 255});
  const GuardedTensor scale = per_channel({4.0 / 255}),
                      shift = per_channel({-2});
  const std::vector<ImageMap> maps = {
      {{1, 0, -1, 0, 1, -1}, 0, Outside::kBlack},
      {{1, 0, 1e12f, 0, 1, 0}, 0, Outside::kBlack},
      {{1, 0, 1.5f, 0, 1, 0}, 0, Outside::kBlack},
  };
  const DeviceValues<ImageMap> d_maps(maps);
  const GuardedTensor images(DType::kF32, {3, 1, 2, 2}, Layout::kNhwc);
  gather_images(test.context, images, stored, scale, shift, d_maps);
  const auto got = images.get();
  const std::vector<double> expected = {-2, -2, -2, 2,  -2, -2,
                                        -2, -2, 0,  -2, 0,  -2};
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], 1e-6) << i;
}

TEST(AugmentExact, PaddingIsZeroAfterNormalisation) {
  TestContext test;
  const GuardedTensor stored(DType::kU8, {1, 2, 2, 1}, {10, 20, 30, 40});
  const GuardedTensor scale = per_channel({0.5}), shift = per_channel({-3});
  const std::vector<ImageMap> maps = {
      {{1, 0, -1, 0, 1, -1}, 0, Outside::kMean},
      {{1, 0, -1, 0, 1, -1}, 0, Outside::kNearest},
      {{1, 0, 1e12f, 0, 1, 0}, 0, Outside::kMean},
      {{1, 0, 1.5f, 0, 1, 0}, 0, Outside::kMean},
  };
  const DeviceValues<ImageMap> d_maps(maps);
  const GuardedTensor images(DType::kF32, {4, 1, 2, 2}, Layout::kNhwc);
  gather_images(test.context, images, stored, scale, shift, d_maps);
  EXPECT_EQ(
      images.get(), (std::vector<double>{0, 0, 0, 2,       // its first pixel
                                         2, 2, 2, 2,       // the nearest one
                                         0, 0, 0, 0,       // far away
                                         3.5, 0, 8.5, 0})  // half over the edge
  );
}

TEST(AugmentExact, AnImageThatIsNotThereIsSeen) {
  TestContext test;
  const GuardedTensor stored(DType::kU8, {2, 1, 1, 1}, {1, 2});
  const GuardedTensor scale = per_channel({1}), shift = per_channel({0});
  const GuardedTensor images(DType::kF32, {2, 1, 1, 1}, Layout::kNhwc);
  for (const int32_t bad : {-1, 2}) {
    const std::vector<ImageMap> maps = {
        {{1, 0, 0, 0, 1, 0}, 1, Outside::kMean},
        {{1, 0, 0, 0, 1, 0}, bad, Outside::kNearest}};
    const DeviceValues<ImageMap> d_maps(maps);
    if (test_device().kind() == DeviceKind::kCpu) {
      EXPECT_THROW(
          gather_images(test.context, images, stored, scale, shift, d_maps),
          Error);
    } else {
      gather_images(test.context, images, stored, scale, shift, d_maps);
      EXPECT_EQ(images.get()[0], 2);
      EXPECT_TRUE(std::isnan(images.get()[1]));
    }
  }
}

}  // namespace
}  // namespace syncopate
