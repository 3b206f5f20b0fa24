// Normalisation, cropping, flipping and rotation against their definitions.
#include "data/images/augment.h"

#include <cmath>
#include <numbers>

#include "data/images/normalization.h"
#include "data_files.h"

namespace syncopate {
namespace {

ImageSet as_floats(const ImageSet& set) {
  ImageSet result = set;
  std::vector<float> pixels;
  for (const uint8_t byte : std::get<std::vector<uint8_t>>(set.pixels))
    pixels.push_back(static_cast<float>(byte) / 255);
  result.pixels = std::move(pixels);
  return result;
}

const Normalization kThree = {{0.5F, 0.25F, 0.125F}, {0.5F, 2.0F, 0.25F}};

// out(y, x) = pixel(y + dy, x' + dx), x' = x or W-1-x; zero outside.
struct View {
  int64_t dy = 0, dx = 0;
  bool is_mirrored = false;
};

std::vector<float> filled(const ImageSet& set,
                          int64_t sample,
                          const View& view) {
  std::vector<float> out(
      static_cast<size_t>(set.spec.H * set.spec.W * set.spec.C), NAN);
  Affine affine =
      shifted(static_cast<double>(view.dx), static_cast<double>(view.dy));
  if (view.is_mirrored) affine = affine.after(mirrored(set.spec.W));
  ImageReader(set, kThree)
      .fill(
          sample,
          [&](int64_t H, int64_t W) {
            EXPECT_EQ(H, set.spec.H);
            EXPECT_EQ(W, set.spec.W);
            return affine.to_map(sample, Outside::kMean);
          },
          out.data());
  return out;
}

void rotate_image(const ImageSpec& spec,
                  double radians,
                  const float* in,
                  float* out) {
  const auto channels = static_cast<size_t>(spec.C);
  const std::vector<float> zero(channels, 0.0F), one(channels, 1.0F);
  PixelReader(spec, {one, zero}, {zero, one})
      .read(in, spec.H, spec.W,
            rotated(radians, spec.H, spec.W).to_map(0, Outside::kMean), out);
}

TEST(Normalize, MeanAndDeviationOfBytesAreExact) {
  ImageSet set = image_set(1, 1, 4, 2);
  // Channel 0: 0 0 255 255; channel 1: 51 51 51 51 (= 0.2).
  set.pixels = std::vector<uint8_t>{0, 51, 0, 51, 255, 51, 255, 51};
  const Normalization result = make_normalization({}, set);
  EXPECT_EQ(result.mean, (std::vector<float>{0.5F, 0.2F}));
  EXPECT_EQ(result.std, (std::vector<float>{0.5F, 1.0F / 255}));
}

TEST(Normalize, FloatsAreTakenAsStored) {
  ImageSet set = image_set(1, 1, 4, 1);
  set.pixels = std::vector<float>{-3, -1, 1, 3};
  const Normalization result = make_normalization({}, set);
  EXPECT_EQ(result.mean[0], 0.0F);
  EXPECT_EQ(result.std[0], std::sqrt(5.0F));
  set.pixels = std::vector<float>{2, 2, 2, 2};
  EXPECT_EQ(make_normalization({}, set).std[0], 1e-6F);
}

// Two sets that differ only in an image that is held out.
TEST(Normalize, WhatIsHeldOutChangesNothing) {
  const std::vector<int64_t> training = {0, 2};
  ImageSet set = image_set(3, 1, 2, 1), other = set;
  set.pixels = std::vector<uint8_t>{0, 51, 7, 9, 204, 255};
  other.pixels = std::vector<uint8_t>{0, 51, 250, 3, 204, 255};
  Normalization result = make_normalization({}, set, training);
  EXPECT_EQ(result.mean, (std::vector<float>{0.5F}));
  EXPECT_EQ(result.std[0], std::sqrt(0.17F));  // (0.25 + 0.09) / 2
  EXPECT_EQ(result.mean, make_normalization({}, other, training).mean);
  EXPECT_EQ(result.std, make_normalization({}, other, training).std);
  EXPECT_NE(result.mean, make_normalization({}, set).mean);
  set.pixels = std::vector<float>{-3, -1, 8, 9, 1, 3};
  result = make_normalization({}, set, training);
  EXPECT_EQ(result.mean[0], 0.0F);
  EXPECT_EQ(result.std[0], std::sqrt(5.0F));
}

TEST(Normalize, TextReadsBackToTheSameFloats) {
  const ImageSet set = image_set(1, 2, 2, 2);
  const Normalization given = {{0.1F, 1.0F / 3}, {2.0F / 7, 1e-6F}};
  DataOptions options;
  options.normalize = format_normalization(given);
  EXPECT_EQ(make_normalization(options, set).mean, given.mean);
  EXPECT_EQ(make_normalization(options, set).std, given.std);
}

TEST(Normalize, NoneAndNumbers) {
  const ImageSet set = image_set(1, 2, 2, 2);
  DataOptions options;
  options.normalize = "none";
  EXPECT_EQ(make_normalization(options, set).mean, (std::vector<float>{0, 0}));
  EXPECT_EQ(make_normalization(options, set).std, (std::vector<float>{1, 1}));
  options.normalize = "0.5  0.25 / 2 0.125";
  EXPECT_EQ(make_normalization(options, set).mean,
            (std::vector<float>{0.5F, 0.25F}));
  EXPECT_EQ(make_normalization(options, set).std,
            (std::vector<float>{2, 0.125F}));
  for (const char* wrong : {"", "auto ", "1 2", "1 2 / 3", "1 2 / 3 x",
                            "1 2 / 3 0", "1 2 / 3 4 / 5", "1 2 / -3 4"}) {
    options.normalize = wrong;
    EXPECT_THROW(make_normalization(options, set), Error) << wrong;
  }
}

TEST(ImageReader, ValuesAreTheFormula) {
  const ImageSet set = image_set(2, 3, 4, 3);
  const auto& bytes = std::get<std::vector<uint8_t>>(set.pixels);
  const auto out = filled(set, 1, {});
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t c = i % 3;
    EXPECT_EQ(out[i],
              (static_cast<float>(bytes[36 + i]) / 255 - kThree.mean[c]) /
                  kThree.std[c]);
  }
  EXPECT_EQ(out, filled(as_floats(set), 1, {}));
}

// Every shift, also those that leave nothing of the image, against the
// definition in the header.
TEST(ImageReader, ShiftsAndMirrorsAsDefined) {
  const int64_t H = 3, W = 4, C = 3;
  const ImageSet set = image_set(1, H, W, C);
  const auto straight = filled(set, 0, {});
  for (int64_t dy = -H - 1; dy <= H + 1; ++dy)
    for (int64_t dx = -W - 1; dx <= W + 1; ++dx)
      for (const bool mirror : {false, true}) {
        const auto out =
            filled(set, 0, {.dy = dy, .dx = dx, .is_mirrored = mirror});
        for (int64_t y = 0; y < H; ++y)
          for (int64_t x = 0; x < W; ++x)
            for (int64_t c = 0; c < C; ++c) {
              const int64_t from_y = y + dy;
              const int64_t from_x = (mirror ? W - 1 - x : x) + dx;
              const bool is_inside =
                  from_y >= 0 && from_y < H && from_x >= 0 && from_x < W;
              const float expected = is_inside
                                         ? straight[static_cast<size_t>(
                                               (from_y * W + from_x) * C + c)]
                                         : 0.0F;
              ASSERT_EQ(out[static_cast<size_t>((y * W + x) * C + c)], expected)
                  << dy << " " << dx << " " << mirror;
            }
      }
}

TEST(ImageReader, RefusesASampleThatIsNotThere) {
  const ImageSet set = image_set(2, 3, 4, 3);
  EXPECT_THROW(filled(set, 2, {}), Error);
  EXPECT_THROW(filled(set, -1, {}), Error);
}

TEST(Rotate, QuarterTurnsMovePixels) {
  const int64_t side = 5;
  const ImageSpec spec = {.C = 2, .H = side, .W = side, .classes = 2};
  std::vector<float> in(50), out(50), back(50);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i + 1);
  rotate_image(spec, std::numbers::pi / 2, in.data(), out.data());
  // out(y, x) = in(middle - (x - middle), y): a turn by 90 degrees. The
  // corners lie at the very edge, where rounding mixes in a zero: 1e-5 of 50.
  for (int64_t y = 0; y < side; ++y)
    for (int64_t x = 0; x < side; ++x)
      EXPECT_NEAR(out[static_cast<size_t>((y * side + x) * 2)],
                  in[static_cast<size_t>(((side - 1 - x) * side + y) * 2)],
                  5e-4);
  rotate_image(spec, -std::numbers::pi / 2, out.data(), back.data());
  for (size_t i = 0; i < in.size(); ++i) EXPECT_NEAR(back[i], in[i], 1e-3);
  rotate_image(spec, 0, in.data(), out.data());
  EXPECT_EQ(out, in);
}

TEST(Rotate, IsBilinearAndZeroOutside) {
  const ImageSpec spec = {.C = 1, .H = 9, .W = 7, .classes = 2};
  std::vector<float> ones(63, 1.0F), ramp(63), out(63);
  for (int64_t y = 0; y < 9; ++y)
    for (int64_t x = 0; x < 7; ++x)
      ramp[static_cast<size_t>(y * 7 + x)] = static_cast<float>(10 * y + x);
  const double angle = 0.3;
  rotate_image(spec, angle, ones.data(), out.data());
  EXPECT_LT(out[0], 0.9F);
  EXPECT_NEAR(out[31], 1.0F, 1e-6);
  // A linear function is reproduced by bilinear interpolation where all four
  // neighbours are inside: the middle 3 x 3.
  rotate_image(spec, angle, ramp.data(), out.data());
  for (int64_t y = 3; y <= 5; ++y)
    for (int64_t x = 2; x <= 4; ++x) {
      const double down = static_cast<double>(y - 4);
      const double across = static_cast<double>(x - 3);
      const double expected =
          10 * (std::cos(angle) * down - std::sin(angle) * across + 4) +
          std::sin(angle) * down + std::cos(angle) * across + 3;
      EXPECT_NEAR(out[static_cast<size_t>(y * 7 + x)], expected, 1e-4);
    }
}

DataOptions with(const std::vector<std::string>& kinds) {
  DataOptions options;
  options.augment = kinds;
  options.crop_pad = 2;
  return options;
}

std::vector<float> augmented(const DataOptions& options,
                             const ImageSet& set,
                             uint64_t seed,
                             int64_t epoch,
                             int64_t sample) {
  Augmenter augmenter(options, set, kThree, seed);
  std::vector<float> out(
      static_cast<size_t>(set.spec.H * set.spec.W * set.spec.C), NAN);
  augmenter.fill(epoch, sample, out.data());
  return out;
}

TEST(Augmenter, DependsOnSeedEpochAndSampleOnly) {
  const ImageSet set = image_set(8, 9, 8, 3);
  const DataOptions options = with({"crop", "flip", "rotate"});
  Augmenter shared(options, set, kThree, 3);
  std::vector<float> out(9 * 8 * 3);
  for (const int64_t sample : {5, 0, 5, 7, 1})
    for (const int64_t epoch : {4, 0, 1}) {
      shared.fill(epoch, sample, out.data());
      EXPECT_EQ(out, augmented(options, set, 3, epoch, sample));
      EXPECT_NE(out, augmented(options, set, 4, epoch, sample));
      EXPECT_NE(out, augmented(options, set, 3, epoch + 1, sample));
    }
}

TEST(Augmenter, WithoutKindsItOnlyNormalises) {
  const ImageSet set = image_set(3, 4, 4, 3);
  EXPECT_EQ(augmented(with({}), set, 3, 9, 1), filled(set, 1, {}));
}

// Turning one kind on leaves the draws of the others as they were.
TEST(Augmenter, CropAndFlipDrawUniformlyAndIndependently) {
  const ImageSet set = image_set(1, 6, 6, 3);
  const DataOptions crop = with({"crop"}), both = with({"flip", "crop"});
  std::vector<int> seen(25, 0);
  int mirrored = 0;
  const int kDraws = 2000;
  for (int64_t epoch = 0; epoch < kDraws; ++epoch) {
    const auto cropped = augmented(crop, set, 7, epoch, 0);
    const auto flipped = augmented(both, set, 7, epoch, 0);
    int matches = 0;
    for (int64_t dy = -2; dy <= 2; ++dy)
      for (int64_t dx = -2; dx <= 2; ++dx) {
        if (cropped != filled(set, 0, {.dy = dy, .dx = dx})) continue;
        ++matches;
        ++seen[static_cast<size_t>((dy + 2) * 5 + dx + 2)];
        const auto mirror =
            filled(set, 0, {.dy = dy, .dx = dx, .is_mirrored = true});
        EXPECT_TRUE(flipped == cropped || flipped == mirror);
        mirrored += flipped == mirror ? 1 : 0;
      }
    ASSERT_EQ(matches, 1);
  }
  // Binomial: 80 +- 8.8 and 1000 +- 22; five deviations.
  for (const int count : seen) EXPECT_NEAR(count, 80, 44);
  EXPECT_NEAR(mirrored, 1000, 110);
}

TEST(Augmenter, RefusesImpossibleOptions) {
  const ImageSet set = image_set(1, 6, 4, 3);
  const auto refuse = [&](const DataOptions& options, const std::string& line) {
    expect_error(ExitCode::kBadInput, line,
                 [&] { Augmenter(options, set, kThree, 1); });
  };
  refuse(with({"crop", "mixup"}),
         "data.augment: mixup, expected some of crop flip rotate "
         "resized_crop");
  refuse(with({"crop", "resized_crop"}),
         "data.augment: crop and resized_crop, expected one of them");
  DataOptions options = with({"crop"});
  options.crop_pad = 4;
  refuse(options, "data.crop_pad: 4, expected 0 to 3 for images of 6 x 4");
  options = with({"rotate"});
  options.rotate_degrees = NAN;
  refuse(options, "data.rotate_degrees: nan, expected 0 to 180");
  options = with({"resized_crop"});
  options.crop_scale_min = 0;
  refuse(options, "data.crop_scale_min: 0, expected more than 0 and at most 1");
}

}  // namespace
}  // namespace syncopate
