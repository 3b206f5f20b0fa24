#include "tensor/tensor.h"

#include <bit>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace syncopate {
namespace {

uint16_t rounded_bits(uint32_t bits) {
  return to_bf16(std::bit_cast<float>(bits)).bits;
}

TEST(Bf16, RoundsToNearestEven) {
  EXPECT_EQ(rounded_bits(0x3F800000), 0x3F80);  // 1
  EXPECT_EQ(rounded_bits(0x3F807FFF), 0x3F80);  // below half: down
  EXPECT_EQ(rounded_bits(0x3F808000), 0x3F80);  // half: to even, down
  EXPECT_EQ(rounded_bits(0x3F808001), 0x3F81);  // above half: up
  EXPECT_EQ(rounded_bits(0x3F818000), 0x3F82);  // half: to even, up
  EXPECT_EQ(rounded_bits(0xBF818000), 0xBF82);
  EXPECT_EQ(rounded_bits(0x3FFFFFFF), 0x4000);  // carries into the exponent
  EXPECT_EQ(rounded_bits(0x00000001), 0x0000);  // denormals too
  EXPECT_EQ(rounded_bits(0x80000000), 0x8000);  // -0
}

TEST(Bf16, InfinityAndNan) {
  EXPECT_EQ(rounded_bits(0x7F800000), 0x7F80);
  EXPECT_EQ(rounded_bits(0xFF800000), 0xFF80);
  EXPECT_EQ(rounded_bits(0x7F7FFFFF), 0x7F80);  // the largest float overflows
  // A payload in the lower half alone must not become infinity.
  for (const uint32_t bits : {0x7F800001u, 0x7FC00000u, 0xFFFFFFFFu})
    EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(bits)))));
}

TEST(Bf16, EveryValueSurvives) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Bf16 value{static_cast<uint16_t>(bits)};
    if (std::isnan(to_float(value))) continue;
    ASSERT_EQ(to_bf16(to_float(value)).bits, bits);
  }
}

TEST(Shape, ElementsAndText) {
  EXPECT_EQ(Shape{}.elems(), 1);
  EXPECT_EQ((Shape{128, 16, 32, 32}).elems(), 128 * 16 * 32 * 32);
  EXPECT_EQ((Shape{128, 16, 32, 32}).text(), "(128, 16, 32, 32)");
  EXPECT_EQ((Shape{3, 0}).elems(), 0);
  EXPECT_NE((Shape{2, 3}), (Shape{2, 3, 1}));
  EXPECT_THROW((Shape{1, 2, 3, 4, 5, 6}), Error);
}

TEST(Tensor, BytesAndTypes) {
  float data[6] = {};
  const Tensor t = make_tensor(data, DType::kF32, {2, 3});
  EXPECT_EQ(t.bytes(), 24);
  EXPECT_EQ(t.f32(), data);
  const Tensor half = make_tensor(data, DType::kBf16, {2, 3});
  EXPECT_EQ(half.bytes(), 12);
  EXPECT_THROW(half.f32(), Error);
  EXPECT_STREQ(name_of(DType::kBf16), "bf16");
  EXPECT_STREQ(name_of(Layout::kNchw16c), "nchw16c");
}

}  // namespace
}  // namespace syncopate
