// Maps: composition, the views of evaluation, random-resized crops, and the
// host's ways of reading a map against the definition in doubles.
#include "data/images/sample_map.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "data/images/augment.h"
#include "data/images/normalization.h"
#include "data_files.h"
#include "reference/image_map.h"

namespace syncopate {
namespace {

std::array<double, 2> at(const Affine& a, double x, double y) {
  return {a.m[0] * x + a.m[1] * y + a.m[2], a.m[3] * x + a.m[4] * y + a.m[5]};
}

TEST(Affine, ComposesAsFunctions) {
  const Affine outer{{1.5, -0.25, 3, 0.5, 2, -7}};
  const Affine inner{{0.5, 0.75, -1, -2, 0.25, 4}};
  const Affine both = outer.after(inner);
  for (const double x : {-3.0, 0.0, 11.0})
    for (const double y : {-2.0, 5.0}) {
      const auto middle = at(inner, x, y);
      EXPECT_EQ(at(both, x, y), at(outer, middle[0], middle[1]));
    }
}

// The four corners of the output's area are the corners of the box.
TEST(Affine, ReadsABoxFromEdgeToEdge) {
  const Affine map = read_box({.x = 3, .y = 5, .w = 40, .h = 14}, 7, 10);
  EXPECT_EQ(at(map, -0.5, -0.5), (std::array{2.5, 4.5}));
  EXPECT_EQ(at(map, 9.5, 6.5), (std::array{42.5, 18.5}));
}

TEST(Evaluation, TakesTheMiddle) {
  // At the stored size a map is a shift by whole pixels, also for odd sizes.
  for (const int64_t side : {24, 23}) {
    const Affine map = evaluation_view(32, 48, 32, side, side);
    EXPECT_EQ(map.m[0], 1);
    EXPECT_EQ(map.m[4], 1);
    EXPECT_EQ(map.m[2], side == 24 ? 12 : 13);
    EXPECT_EQ(map.m[5], side == 24 ? 4 : 5);
  }
  EXPECT_EQ(evaluation_view(9, 8, 0, 9, 8).to_map(3, Outside::kNearest).m[2],
            0.0F);
  // 375 x 500 to 256 x 341.3, then 224 x 224: within half a pixel of the
  // middle.
  const Affine map = evaluation_view(375, 500, 256, 224, 224);
  EXPECT_DOUBLE_EQ(map.m[0], 375.0 / 256);
  const auto middle = at(map, 111.5, 111.5);
  EXPECT_NEAR(middle[0], 249.5, 375.0 / 256);
  EXPECT_NEAR(middle[1], 187, 1e-9);
}

// Against the mean and the range that the definition gives: areas uniform in
// [min, 1], logarithms of ratios uniform, places uniform.
TEST(ResizedCrop, IsDrawnAsDefined) {
  const int64_t H = 400, W = 400;
  const int kDraws = 20000;
  double area = 0, log_ratio = 0, left = 0;
  double least = 1, most = 0, narrow = 9, wide = 0;
  for (int i = 0; i < kDraws; ++i) {
    Rng rng(5, Purpose::kAugment, 1, static_cast<uint64_t>(i));
    const CropBox box = draw_crop_box(rng, 0.25, H, W);
    ASSERT_GE(box.x, 0);
    ASSERT_GE(box.y, 0);
    ASSERT_LE(box.x + box.w, W);
    ASSERT_LE(box.y + box.h, H);
    const double share = box.w * box.h / (H * W);
    least = std::min(least, share);
    most = std::max(most, share);
    narrow = std::min(narrow, box.w / box.h);
    wide = std::max(wide, box.w / box.h);
    area += share / kDraws;
    log_ratio += std::log(box.w / box.h) / kDraws;
    left += (W == box.w ? 0.5 : box.x / (W - box.w)) / kDraws;
  }
  // Whole pixels: a side is off by up to half a pixel of 200.
  EXPECT_GE(least, 0.25 * 0.99);
  EXPECT_LE(least, 0.27);
  EXPECT_GE(most, 0.98);
  EXPECT_GE(narrow, 0.75 * 0.99);
  EXPECT_LE(wide, 4.0 / 3 * 1.01);
  EXPECT_LE(narrow, 0.77);
  EXPECT_GE(wide, 1.30);
  // An elongated box does not fit at a large area (w > W from area * ratio >
  // 1), which takes a part of the areas above 3/4; the mean of the rest comes
  // from integrating over what fits: 0.596. Deviation of a mean 0.0015.
  double sum = 0, weight = 0;
  for (int a = 0; a < 1000; ++a) {
    const double share = 0.25 + 0.75 * (a + 0.5) / 1000;
    // |log ratio| <= min(log 4/3, -log share)
    const double fits = std::min(1.0, -std::log(share) / std::log(4.0 / 3));
    sum += share * fits;
    weight += fits;
  }
  EXPECT_NEAR(area, sum / weight, 0.008);
  EXPECT_NEAR(log_ratio, 0, 0.006);
  EXPECT_NEAR(left, 0.5, 0.012);
}

TEST(ResizedCrop, FallsBackToTheMiddle) {
  Rng rng(1, Purpose::kAugment);
  // 10 x 1000: no box of more than 90% has a ratio of at most 4/3.
  const CropBox wide = draw_crop_box(rng, 0.9, 10, 1000);
  EXPECT_EQ(wide.h, 10);
  EXPECT_EQ(wide.w, 13);
  EXPECT_EQ(wide.x, 493);
  const CropBox tall = draw_crop_box(rng, 0.9, 1000, 10);
  EXPECT_EQ(tall.w, 10);
  EXPECT_EQ(tall.h, 13);
  EXPECT_EQ(tall.y, 493);
  const CropBox dot = draw_crop_box(rng, 0.9, 1, 1);
  EXPECT_EQ(dot.w, 1);
  EXPECT_EQ(dot.h, 1);
}

std::vector<double> read_by_definition(const ImageSet& set,
                                       const ImageMap& map,
                                       const PixelScale& scale) {
  const auto [H, W, bytes, floats] = set.resident();
  reference::StoredImages stored{H,
                                 W,
                                 set.spec.C,
                                 {bytes.begin(), bytes.end()},
                                 {scale.scale.begin(), scale.scale.end()},
                                 {scale.shift.begin(), scale.shift.end()}};
  if (!floats.empty()) stored.pixels = {floats.begin(), floats.end()};
  const reference::PixelMap by{{std::begin(map.m), std::end(map.m)},
                               map.image,
                               static_cast<reference::Beside>(map.outside)};
  std::vector<double> out;
  for (int64_t y = 0; y < set.spec.H; ++y)
    for (int64_t x = 0; x < set.spec.W; ++x)
      for (int64_t c = 0; c < set.spec.C; ++c)
        out.push_back(reference::read_pixel(stored, by, x, y, c));
  return out;
}

double worst_difference(const std::vector<float>& a,
                        const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(std::isfinite(a[i]));
    worst = std::max(worst, std::fabs(static_cast<double>(a[i]) - b[i]));
  }
  return worst;
}

ImageSet as_floats(ImageSet set) {
  const auto bytes = std::get<std::vector<uint8_t>>(set.pixels);
  set.pixels = std::vector<float>(bytes.begin(), bytes.end());
  return set;
}

// The map for a device is equivalent to the pixels that the host computes.
TEST(Augmenter, FillsWhatItsMapSays) {
  for (const int64_t channels : {1, 3, 4})
    for (const bool is_bytes : {true, false}) {
      const ImageSet bytes = image_set(3, 13, 11, channels);
      const ImageSet set = is_bytes ? bytes : as_floats(bytes);
      const float unit = is_bytes ? 1.0F : 255.0F;
      Normalization normalization;
      for (int64_t c = 0; c < channels; ++c) {
        normalization.mean.push_back((0.4F + 0.05F * c) * unit);
        normalization.std.push_back((0.2F + 0.05F * c) * unit);
      }
      const PixelScale scale = pixel_scale(set, normalization);
      const std::vector<std::vector<std::string>> kinds = {
          {},
          {"flip"},
          {"crop"},
          {"crop", "flip"},
          {"rotate"},
          {"crop", "flip", "rotate"},
          {"resized_crop"},
          {"resized_crop", "flip"},
          {"resized_crop", "flip", "rotate"}};
      for (const auto& augment : kinds) {
        DataOptions options;
        options.augment = augment;
        options.crop_pad = 3;
        options.rotate_degrees = 40;
        std::vector<float> out(static_cast<size_t>(13 * 11 * channels));
        for (int64_t epoch = 0; epoch < 24; ++epoch) {
          options.fill =
              epoch % 2 == 0 ? FillColour::kMean : FillColour::kBlack;
          const Augmenter augmenter(options, set, normalization, 11);
          const int64_t sample = epoch % 3;
          augmenter.fill(epoch, sample, out.data());
          const ImageMap map = augmenter.map(epoch, sample);
          EXPECT_EQ(map.image, sample);
          // Values of up to 3: rounding of the map in fp32 moves a place by
          // 1e-6 pixels of a slope of up to 5 a pixel.
          EXPECT_LT(worst_difference(out, read_by_definition(set, map, scale)),
                    5e-5)
              << ::testing::PrintToString(augment) << " " << epoch;
        }
      }
    }
}

// Turning resized crops on leaves the coins of the flips as they were.
TEST(Augmenter, ResizedCropsLeaveFlipsAlone) {
  const ImageSet set = image_set(1, 30, 20, 3);
  const Normalization normalization = {{0, 0, 0}, {1, 1, 1}};
  DataOptions flip, both;
  flip.augment = {"flip"};
  both.augment = {"resized_crop", "flip"};
  const Augmenter one(flip, set, normalization, 4),
      two(both, set, normalization, 4);
  int flips = 0;
  for (int64_t epoch = 0; epoch < 64; ++epoch) {
    const bool is_flipped = one.map(epoch, 0).m[0] < 0;
    EXPECT_EQ(two.map(epoch, 0).m[0] < 0, is_flipped);
    flips += is_flipped ? 1 : 0;
  }
  EXPECT_GT(flips, 10);
  EXPECT_LT(flips, 54);
}

}  // namespace
}  // namespace syncopate
