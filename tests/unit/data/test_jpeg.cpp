// JPEG decoding against the encoded pixels, and the errors for damaged files.
#include <array>
#include <cstdio>  // jpeglib.h uses FILE
#include <cstdlib>

#include "jpeg_files.h"

#include <jpeglib.h>

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

// Factors across and down of Y, Cb and Cr.
using Sampling = std::array<std::array<int, 2>, 3>;

// TurboJPEG writes only the usual samplings.
std::string jpeg_with(const RgbImage& image, const Sampling& sampling) {
  jpeg_compress_struct file{};
  jpeg_error_mgr errors{};
  file.err = jpeg_std_error(&errors);
  jpeg_create_compress(&file);
  unsigned char* bytes = nullptr;
  unsigned long num_bytes = 0;
  jpeg_mem_dest(&file, &bytes, &num_bytes);
  file.image_width = static_cast<JDIMENSION>(image.W);
  file.image_height = static_cast<JDIMENSION>(image.H);
  file.input_components = 3;
  file.in_color_space = JCS_RGB;
  jpeg_set_defaults(&file);
  jpeg_set_quality(&file, 95, TRUE);
  for (size_t c = 0; c < sampling.size(); ++c) {
    file.comp_info[c].h_samp_factor = sampling[c][0];
    file.comp_info[c].v_samp_factor = sampling[c][1];
  }
  jpeg_start_compress(&file, TRUE);
  for (int64_t y = 0; y < image.H; ++y) {
    std::vector<uint8_t> row(image.pixels.begin() + y * image.W * 3,
                             image.pixels.begin() + (y + 1) * image.W * 3);
    JSAMPROW rows[] = {row.data()};
    jpeg_write_scanlines(&file, rows, 1);
  }
  jpeg_finish_compress(&file);
  jpeg_destroy_compress(&file);
  std::string result(reinterpret_cast<const char*>(bytes), num_bytes);
  std::free(bytes);
  return result;
}

TEST(Jpeg, UnusualSamplingsAreDecoded) {
  const ScratchFolder folder;
  const int64_t H = 90, W = 121;
  const RgbImage image = make_image(H, W, 1, 2);
  for (const Sampling& sampling : {Sampling{{{1, 1}, {1, 1}, {1, 1}}},
                                   {{{1, 4}, {1, 1}, {1, 1}}},
                                   {{{4, 2}, {1, 1}, {1, 1}}},
                                   {{{2, 4}, {1, 1}, {1, 1}}},
                                   {{{3, 1}, {1, 1}, {1, 1}}},
                                   {{{1, 1}, {2, 2}, {2, 2}}}}) {
    write_bytes(folder / "a.jpg", jpeg_with(image, sampling));
    // One value of chroma for up to eight pixels, of waves of this length.
    EXPECT_LT(mean_difference(decoded(folder / "a.jpg", H, W), image.pixels),
              6.0)
        << sampling[0][0] << " x " << sampling[0][1];
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

// Three columns of Y for two of Cb.
TEST(Jpeg, AnUnsupportedKindIsNotCalledDamage) {
  const ScratchFolder folder;
  const fs::path path = folder / "a.jpg";
  std::string bytes =
      jpeg_with(make_image(60, 80, 2, 1), {{{3, 1}, {1, 1}, {1, 1}}});
  constexpr size_t kFactorsOfCb = 14;  // in the frame, from its marker
  const size_t frame = bytes.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  ASSERT_EQ(bytes[frame + kFactorsOfCb], 0x11);
  bytes[frame + kFactorsOfCb] = 0x21;
  write_bytes(path, bytes);
  const Error error = decode_error(path);
  EXPECT_EQ(error.code(), ExitCode::kBadInput);
  EXPECT_EQ(error.what(), path.string() +
                              ": a JPEG of a kind that is not read: Fractional "
                              "sampling not implemented yet");
}

// As much detail as a photograph, so that the scan is most of the file.
RgbImage make_detailed_image(int64_t H, int64_t W) {
  RgbImage image = make_image(H, W, 1, 2);
  uint32_t state = 1;
  for (uint8_t& pixel : image.pixels) {
    state = state * 1664525U + 1013904223U;  // Numerical Recipes, ch. 7.1
    pixel = static_cast<uint8_t>(
        std::clamp(pixel + static_cast<int>(state >> 28) - 8, 0, 255));
  }
  return image;
}

// A file whose header has a defect that is ignored, and the same file cut
// short.
TEST(Jpeg, AHarmlessDefectHidesNoDamage) {
  const ScratchFolder folder;
  const fs::path path = folder / "a.jpg";
  const int64_t H = 160, W = 200;
  const std::string good = jpeg_of(make_detailed_image(H, W));
  write_bytes(path, good);
  const std::vector<uint8_t> pixels = decoded(path, H, W);
  constexpr size_t kRevision = 11, kAfterJfif = 20;  // SOI, APP0 of 18 bytes
  std::string other_revision = good, bytes_between = good;
  other_revision[kRevision] = 3;
  bytes_between.insert(kAfterJfif, std::string(40, '\x5a'));
  for (const std::string& bytes : {other_revision, bytes_between}) {
    write_bytes(path, bytes);
    EXPECT_EQ(decoded(path, H, W), pixels);
    write_bytes(path, bytes.substr(0, bytes.size() * 3 / 10));
    EXPECT_EQ(decode_error(path).code(), ExitCode::kBadInput);
  }
}

// The decoder often finds its place again after damage, but with blocks too few
// or too many: bytes are left at the end, or missing. If the number of blocks
// is right by chance, nothing shows the damage.
TEST(Jpeg, OverwrittenBytesOfTheScanAreRefused) {
  const ScratchFolder folder;
  const fs::path path = folder / "a.jpg";
  const std::string good = jpeg_of(make_detailed_image(160, 200));
  constexpr size_t kPlaces = 12;
  int num_refused = 0;
  for (size_t place = 0; place < kPlaces; ++place) {
    std::string bytes = good;
    const size_t at = good.size() / 10 + place * good.size() * 7 / 100;
    for (size_t i = 0; i < 16; ++i)
      bytes[at + i] = static_cast<char>(17 * i + 5 * place + 3);
    write_bytes(path, bytes);
    try {
      decoded(path, 160, 200);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      ++num_refused;
    }
  }
  EXPECT_GE(num_refused, 9);
}

// As many bytes as no encoder leaves there.
TEST(Jpeg, ManyBytesLeftBeforeTheEndMarkerAreRefused) {
  const ScratchFolder folder;
  std::string bytes = jpeg_of(make_image(60, 80, 2, 1));
  bytes.insert(bytes.size() - 2, std::string(100, '\x5a'));
  write_bytes(folder / "a.jpg", bytes);
  const Error error = decode_error(folder / "a.jpg");
  EXPECT_EQ(error.code(), ExitCode::kBadInput);
  EXPECT_NE(std::string(error.what()).find("extraneous bytes"),
            std::string::npos)
      << error.what();
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
