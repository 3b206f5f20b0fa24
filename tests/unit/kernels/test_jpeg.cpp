#include "ops/jpeg.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "support/guarded_tensor.h"
#include "support/test_device.h"

namespace syncopate {
namespace {

using namespace test;

// 4:2:0, quality 95, of 11 x 18 pixels with these values.
double pixel_at(int64_t y, int64_t x, int64_t c) {
  constexpr double kFirst[] = {90, 60, 40};
  return kFirst[c] + 6 * static_cast<double>(x) + 4 * static_cast<double>(y);
}
constexpr uint8_t kFile[] = {
    0xff, 0xd8, 0xff, 0xe0, 0x00, 0x10, 0x4a, 0x46, 0x49, 0x46, 0x00, 0x01,
    0x01, 0x00, 0x00, 0x01, 0x00, 0x01, 0x00, 0x00, 0xff, 0xdb, 0x00, 0x43,
    0x00, 0x02, 0x01, 0x01, 0x01, 0x01, 0x01, 0x02, 0x01, 0x01, 0x01, 0x02,
    0x02, 0x02, 0x02, 0x02, 0x04, 0x03, 0x02, 0x02, 0x02, 0x02, 0x05, 0x04,
    0x04, 0x03, 0x04, 0x06, 0x05, 0x06, 0x06, 0x06, 0x05, 0x06, 0x06, 0x06,
    0x07, 0x09, 0x08, 0x06, 0x07, 0x09, 0x07, 0x06, 0x06, 0x08, 0x0b, 0x08,
    0x09, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x06, 0x08, 0x0b, 0x0c, 0x0b, 0x0a,
    0x0c, 0x09, 0x0a, 0x0a, 0x0a, 0xff, 0xdb, 0x00, 0x43, 0x01, 0x02, 0x02,
    0x02, 0x02, 0x02, 0x02, 0x05, 0x03, 0x03, 0x05, 0x0a, 0x07, 0x06, 0x07,
    0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a,
    0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a,
    0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a,
    0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a,
    0x0a, 0x0a, 0xff, 0xc0, 0x00, 0x11, 0x08, 0x00, 0x0b, 0x00, 0x12, 0x03,
    0x01, 0x22, 0x00, 0x02, 0x11, 0x01, 0x03, 0x11, 0x01, 0xff, 0xc4, 0x00,
    0x17, 0x00, 0x00, 0x03, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07, 0x08, 0x05, 0xff, 0xc4,
    0x00, 0x24, 0x10, 0x00, 0x00, 0x05, 0x02, 0x05, 0x05, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x07, 0x24, 0x41,
    0x02, 0x05, 0x01, 0x03, 0x23, 0x33, 0x51, 0x14, 0x32, 0x42, 0x61, 0xb1,
    0xff, 0xc4, 0x00, 0x16, 0x01, 0x01, 0x01, 0x01, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x06, 0x07,
    0xff, 0xc4, 0x00, 0x14, 0x11, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xda,
    0x00, 0x0c, 0x03, 0x01, 0x00, 0x02, 0x11, 0x03, 0x11, 0x00, 0x3f, 0x00,
    0x4b, 0xa2, 0x49, 0xb6, 0xcb, 0x7e, 0x20, 0x58, 0x08, 0x92, 0x6d, 0xb2,
    0xdf, 0x88, 0x0a, 0x14, 0x4a, 0xde, 0x4b, 0x45, 0xbd, 0x30, 0x2c, 0x04,
    0x4a, 0xde, 0x4b, 0x45, 0xbd, 0x30, 0x20, 0xda, 0x23, 0x7c, 0xba, 0x6c,
    0xdf, 0x2d, 0xbf, 0x86, 0x11, 0xe8, 0x01, 0xc4, 0x5e, 0xde, 0x4b, 0xa7,
    0xcb, 0x6f, 0x4f, 0x66, 0x1f, 0x00, 0x03, 0xff, 0xd9};
constexpr JpegSize kSize{11, 18};

std::string file() {
  return {reinterpret_cast<const char*>(kFile), sizeof kFile};
}

// The position of a marker.
size_t place_of(int marker) {
  const size_t place =
      file().find(std::string{'\xFF', static_cast<char>(marker)});
  EXPECT_NE(place, std::string::npos);
  return place;
}
size_t frame() {
  return place_of(0xC0) + 4;  // precision, H, W, 3, then the components
}

// The file with one byte changed.
std::string with(size_t place, int byte) {
  std::string changed = file();
  changed[place] = static_cast<char>(byte);
  return changed;
}
std::string with_inserted(size_t place, const std::string& bytes) {
  return file().insert(place, bytes);
}
std::string with_size(JpegSize size) {
  std::string changed = file();
  changed[frame() + 2] = static_cast<char>(size.H);
  changed[frame() + 4] = static_cast<char>(size.W);
  return changed;
}
std::string adobe(char transform) {
  using namespace std::string_literals;
  return "\xFF\xEE\0\x0E"s + "Adobe\0\x64\0\0\0\0"s + transform;
}

testing::AssertionResult is_plain(const std::string& bytes) {
  const auto size = plain_jpeg_size(bytes);
  if (!size) return testing::AssertionFailure() << "not plain";
  return testing::AssertionResult(size->H == kSize.H && size->W == kSize.W)
         << size->H << " x " << size->W;
}

TEST(PlainJpeg, IsBaselineYccInOneScan) {
  EXPECT_TRUE(is_plain(file()));
  EXPECT_TRUE(is_plain(file() + "what some cameras leave behind"));
  EXPECT_TRUE(is_plain(with(frame() + 7, 0x21)));                    // 4:2:2
  EXPECT_TRUE(is_plain(with(frame() + 7, 0x11)));                    // 4:4:4
  EXPECT_TRUE(is_plain(with_inserted(place_of(0xDB), "\xFF\xFF")));  // filled
  EXPECT_TRUE(is_plain(with_inserted(place_of(0xDB), adobe(1))));
  // Restarts are part of a scan, and so are escaped bytes.
  EXPECT_TRUE(is_plain(with_inserted(file().size() - 2, "\xFF\xD3")));
  EXPECT_TRUE(
      is_plain(with_inserted(file().size() - 2, std::string("\xFF\0", 2))));
}

TEST(PlainJpeg, EverythingElseIsForTheHost) {
  for (size_t length = 0; length < file().size(); ++length)
    EXPECT_FALSE(plain_jpeg_size(file().substr(0, length))) << length;
  EXPECT_FALSE(plain_jpeg_size("\x89PNG and the rest of another format"));
  const size_t marker = place_of(0xC0) + 1;
  for (const int other : {0xC1, 0xC2, 0xC3, 0xC9, 0xCA, 0xCC})
    EXPECT_FALSE(plain_jpeg_size(with(marker, other))) << other;
  EXPECT_FALSE(plain_jpeg_size(with(frame(), 12)));         // bits
  EXPECT_FALSE(plain_jpeg_size(with(frame() + 2, 0)));      // height comes last
  EXPECT_FALSE(plain_jpeg_size(with(frame() + 5, 1)));      // grey
  EXPECT_FALSE(plain_jpeg_size(with(frame() + 7, 0x41)));   // 4:1:1
  EXPECT_FALSE(plain_jpeg_size(with(frame() + 7, 0x12)));   // 4:4:0
  EXPECT_FALSE(plain_jpeg_size(with(frame() + 10, 0x21)));  // chroma is wider
  EXPECT_FALSE(plain_jpeg_size(with_inserted(place_of(0xDB), adobe(0))));
  std::string rgb = with(frame() + 6, 'R');
  rgb[frame() + 9] = 'G';
  rgb[frame() + 12] = 'B';
  EXPECT_FALSE(plain_jpeg_size(rgb));
  std::string large = with(frame() + 1, 0xFF);  // 65291 x 65298
  large[frame() + 3] = '\xFF';
  EXPECT_FALSE(plain_jpeg_size(large));
  EXPECT_FALSE(plain_jpeg_size(with(place_of(0xDA) + 4, 1)));  // many scans
  EXPECT_FALSE(plain_jpeg_size(with(file().size() - 1, 0xDA)));
}

// A device without a decoder reports that, and further tests are skipped.
TEST(DecodeJpegs, GivesPixelsOfEachSize) {
  constexpr int64_t kImages = 64;
  TestContext test;
  if (!can_decode_jpegs(test.context, kImages)) return;
  const std::vector<JpegSize> sizes = {kSize, {11, 17}, {3, 18}, {1, 1}};
  std::vector<std::string> files;
  std::vector<GuardedTensor> pixels;
  std::vector<JpegImage> images;
  for (int64_t i = 0; i < kImages; ++i) {
    const JpegSize size = sizes[static_cast<size_t>(i) % sizes.size()];
    files.push_back(with_size(size));
    pixels.emplace_back(DType::kU8, Shape{size.H, size.W, 3});
  }
  for (size_t i = 0; i < files.size(); ++i)
    images.push_back(
        {.file = files[i],
         .size = sizes[i % sizes.size()],
         .pixels = static_cast<uint8_t*>(pixels[i].tensor().data)});
  // Two batches, the second of which waits for the first.
  const std::span all(images);
  decode_jpegs(test.context, all.first(kImages - 5));
  decode_jpegs(test.context, all.last(5));
  test.stream->synchronize();
  for (size_t i = 0; i < images.size(); ++i) {
    ASSERT_TRUE(images[i].is_decoded) << i;
    const std::vector<double> found = pixels[i].get();
    size_t at = 0;
    // Quantisation at this quality, colour conversion, the transform's bit.
    for (int64_t y = 0; y < images[i].size.H; ++y)
      for (int64_t x = 0; x < images[i].size.W; ++x)
        for (int64_t c = 0; c < 3; ++c, ++at)
          ASSERT_NEAR(found[at], pixel_at(y, x, c), 6)
              << "image " << i << " y " << y << " x " << x << " c " << c;
    EXPECT_TRUE(pixels[i].guards_are_intact()) << i;
  }
}

TEST(DecodeJpegs, RefusesWhatHasNoHeader) {
  TestContext test;
  if (!can_decode_jpegs(test.context, 64)) return;
  const GuardedTensor pixels(DType::kU8, Shape{kSize.H, kSize.W, 3});
  const std::string damaged = with(frame() - 1, 3);  // a frame of no length
  std::vector<JpegImage> images = {
      {.file = damaged,
       .size = kSize,
       .pixels = static_cast<uint8_t*>(pixels.tensor().data),
       .is_decoded = true}};
  decode_jpegs(test.context, images);
  EXPECT_FALSE(images[0].is_decoded);
}

TEST(DecodeJpegs, TheCpuLeavesItToItsOwnDecoder) {
  const auto device = make_cpu_device();
  const auto stream = device->make_stream();
  Context context(*device, *stream, 1);
  EXPECT_FALSE(can_decode_jpegs(context, 64));
}

}  // namespace
}  // namespace syncopate
