// JPEG decoding against the encoded pixels, and the errors for damaged files.
#include <cstdlib>

#include "jpeg_files.h"

namespace syncopate {
namespace {

std::vector<uint8_t> decoded(const fs::path& path, int64_t H, int64_t W) {
  JpegDecoder decoder;
  const JpegDecoder::Image image = decoder.decode(path, whole);
  EXPECT_EQ(image.H, H);
  EXPECT_EQ(image.W, W);
  return {image.pixels, image.pixels + image.H * image.W * 3};
}

double mean_difference(const std::vector<uint8_t>& a,
                       const std::vector<uint8_t>& b) {
  EXPECT_EQ(a.size(), b.size());
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum / static_cast<double>(a.size());
}

TEST(Jpeg, PixelsComeBack) {
  const ScratchFolder folder;
  for (const auto& [H, W] :
       {std::pair<int64_t, int64_t>{64, 64}, {1, 1}, {17, 33}, {375, 500}}) {
    const RgbImage image = make_image(H, W, 1, 2);
    write_bytes(folder / "a.jpg", jpeg_of(image));
    // Quality 95 of waves this long: a few grey levels, most where colours
    // change within two pixels, of which one is kept.
    EXPECT_LT(mean_difference(decoded(folder / "a.jpg", H, W), image.pixels),
              4.0)
        << H << " x " << W;
  }
}

TEST(Jpeg, GreyBecomesRgb) {
  const ScratchFolder folder;
  const int64_t H = 31, W = 22;
  std::vector<uint8_t> grey, expected;
  for (int64_t i = 0; i < H * W; ++i) {
    grey.push_back(static_cast<uint8_t>(40 + i % W * 8));
    expected.insert(expected.end(), 3, grey.back());
  }
  write_bytes(folder / "grey.jpg",
              jpeg_bytes(grey, H, W, TJPF_GRAY, TJSAMP_GRAY, 95));
  const auto pixels = decoded(folder / "grey.jpg", H, W);
  EXPECT_LT(mean_difference(pixels, expected), 2.0);
  for (size_t i = 0; i < pixels.size(); i += 3) {
    EXPECT_EQ(pixels[i], pixels[i + 1]);
    EXPECT_EQ(pixels[i], pixels[i + 2]);
  }
}

TEST(Jpeg, CmykBecomesRgb) {
  const ScratchFolder folder;
  const int64_t H = 32, W = 32;
  std::vector<uint8_t> inks, expected;
  for (int64_t i = 0; i < H * W; ++i) {
    const int key = 255 - static_cast<int>(i / W);
    for (const int ink : {250, 20, 128}) {
      inks.push_back(static_cast<uint8_t>(ink));
      expected.push_back(static_cast<uint8_t>(ink * key / 255));
    }
    inks.push_back(static_cast<uint8_t>(key));
  }
  write_bytes(folder / "inks.jpg",
              jpeg_bytes(inks, H, W, TJPF_CMYK, TJSAMP_444, 95));
  EXPECT_LT(mean_difference(decoded(folder / "inks.jpg", H, W), expected), 3.0);
}

// A map that reads every kth pixel gets an image of that size, with its centres
// in place: reading it through the map gives what the whole image gives.
TEST(Jpeg, IsDecodedNoLargerThanNeeded) {
  const ScratchFolder folder;
  const int64_t H = 160, W = 200;
  write_bytes(folder / "a.jpg", jpeg_of(make_image(H, W, 0, 3)));
  const std::vector<uint8_t> pixels = decoded(folder / "a.jpg", H, W);
  JpegDecoder decoder;
  for (const auto& [side, denominator] : {std::pair<int64_t, int64_t>{160, 1},
                                          {81, 1},
                                          {80, 2},
                                          {50, 2},
                                          {40, 4},
                                          {20, 8},
                                          {7, 8}}) {
    const ImageSpec spec = {.C = 3, .H = side, .W = side, .classes = 2};
    const ImageMap map =
        evaluation_view(H, W, side, side, side).to_map(0, Outside::kNearest);
    const JpegDecoder::Image image =
        decoder.decode(folder / "a.jpg", [&](int64_t, int64_t) { return map; });
    EXPECT_EQ(image.H, H / denominator);
    EXPECT_EQ(image.W, W / denominator);
    const PixelReader reader = reader_of_bytes(spec);
    std::vector<float> small(static_cast<size_t>(side * side * 3)),
        whole_image(small.size());
    reader.read(image.pixels, image.H, image.W, image.map, small.data());
    reader.read(pixels.data(), H, W, map, whole_image.data());
    double worst = 0;
    for (size_t i = 0; i < small.size(); ++i)
      worst = std::max<double>(worst, std::fabs(small[i] - whole_image[i]));
    // Averages over 8 x 8 pixels against one point of them, on a wave that
    // changes by 3.2 per pixel: half a pixel out of place would be 13 at 1/8.
    EXPECT_LT(worst, 6.0) << side;
  }
}

Error decode_error(const fs::path& path) {
  JpegDecoder decoder;
  const Error error = error_of([&] { decoder.decode(path, whole); });
  EXPECT_TRUE(std::string(error.what()).starts_with(path.string()))
      << error.what();
  return error;
}

TEST(Jpeg, DamageIsOneLine) {
  const ScratchFolder folder;
  const std::string good = jpeg_of(make_image(60, 80, 2, 1));
  const fs::path path = folder / "bad.jpg";
  EXPECT_EQ(decode_error(path).code(), ExitCode::kInputMissing);
  for (const std::string& bytes :
       {std::string(), std::string("not a JPEG at all"), std::string(1, '\xff'),
        good.substr(0, 2), good.substr(0, 100), std::string(5000, '\0')}) {
    write_bytes(path, bytes);
    EXPECT_EQ(decode_error(path).code(), ExitCode::kBadInput);
  }
  // A file cut anywhere is refused, not filled up with grey.
  for (size_t bytes = 200; bytes < good.size() - 2; bytes += 97) {
    write_bytes(path, good.substr(0, bytes));
    EXPECT_EQ(decode_error(path).code(), ExitCode::kBadInput) << bytes;
  }
  // A decoder still works after a damaged file.
  JpegDecoder decoder;
  EXPECT_THROW(decoder.decode(path, whole), Error);
  write_bytes(path, good);
  EXPECT_EQ(decoder.decode(path, whole).W, 80);
}

TEST(Jpeg, HarmlessSlipsPass) {
  const ScratchFolder folder;
  std::string bytes = jpeg_of(make_image(60, 80, 2, 1));
  const std::vector<uint8_t> whole_pixels = [&] {
    write_bytes(folder / "a.jpg", bytes);
    return decoded(folder / "a.jpg", 60, 80);
  }();
  bytes.insert(bytes.size() - 2,
               std::string(7, '\0'));  // before the end marker
  bytes += "and words after it";
  write_bytes(folder / "a.jpg", bytes);
  EXPECT_EQ(decoded(folder / "a.jpg", 60, 80), whole_pixels);
}

}  // namespace
}  // namespace syncopate
