#include "base/rng.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "base/shuffle.h"

namespace syncopate {
namespace {

// Known answers of Random123 (Salmon et al., SC11), kat_vectors:
// philox4x32, 10 rounds.
TEST(Rng, PhiloxKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Philox4{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Philox4{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  // The digits of pi.
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                       {0xa4093822, 0x299f31d0}),
            (Philox4{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Rng, SequenceIsAFunctionOfItsArguments) {
  Rng a(1, Purpose::kInit, 2, 3), b(1, Purpose::kInit, 2, 3);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(a.next_u32(), b.next_u32());
}

TEST(Rng, EveryArgumentMatters) {
  constexpr uint64_t kHigh = uint64_t{1} << 32;
  const uint64_t draw = Rng(1, Purpose::kInit, 2, 3).next_u64();
  for (Rng other :
       {Rng(2, Purpose::kInit, 2, 3), Rng(1 + kHigh, Purpose::kInit, 2, 3),
        Rng(1, Purpose::kTest, 2, 3), Rng(1, Purpose::kInit, 3, 3),
        Rng(1, Purpose::kInit, 2 + kHigh, 3), Rng(1, Purpose::kInit, 2, 4),
        Rng(1, Purpose::kInit, 2, 3 + kHigh)})
    EXPECT_NE(other.next_u64(), draw);
}

TEST(Rng, UniformMomentsAndRange) {
  Rng rng(7, Purpose::kTest);
  constexpr int kDraws = 100000;
  double sum = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double u = rng.uniform();
    ASSERT_TRUE(u >= 0 && u < 1);
    sum += u;
    squares += u * u;
  }
  // Five deviations: sqrt(1/12/n) = 9.1e-4, sqrt(4/45/n) = 9.4e-4.
  EXPECT_NEAR(sum / kDraws, 0.5, 5e-3);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 5e-3);
}

TEST(Rng, NormalMoments) {
  Rng rng(7, Purpose::kTest);
  constexpr int kDraws = 100000;
  double sum = 0, squares = 0, fourths = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double z = rng.normal();
    ASSERT_TRUE(std::isfinite(z));
    sum += z;
    squares += z * z;
    fourths += z * z * z * z;
  }
  // Five deviations: 1, sqrt(2) and sqrt(96), over sqrt(n) = 316.
  EXPECT_NEAR(sum / kDraws, 0, 0.016);
  EXPECT_NEAR(squares / kDraws, 1, 0.023);
  EXPECT_NEAR(fourths / kDraws, 3, 0.155);
}

TEST(Rng, AfterBlocksIsWhereDrawsLead) {
  for (const int blocks : {0, 1, 5, 1000}) {
    const Rng start(3, Purpose::kTest, 1, 2);
    Rng drawn = start, later = start.after(blocks);
    for (int i = 0; i < 4 * blocks; ++i) drawn.next_u32();
    for (int i = 0; i < 9; ++i) EXPECT_EQ(later.next_u32(), drawn.next_u32());
  }
}

TEST(Rng, BelowIsUniform) {
  Rng rng(3, Purpose::kTest);
  constexpr int kDraws = 70000;
  std::vector<int> counts(7);
  for (int i = 0; i < kDraws; ++i) ++counts.at(rng.below(7));
  // Binomial around 10000: five deviations of 93.
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 7, 465);
  EXPECT_EQ(rng.below(1), 0u);
  // A bound above 2^63 uses the whole range.
  constexpr uint64_t kHuge = (uint64_t{1} << 63) + 1;
  bool is_above_half = false;
  for (int i = 0; i < 100; ++i) {
    const uint64_t draw = rng.below(kHuge);
    ASSERT_LT(draw, kHuge);
    is_above_half |= draw > kHuge / 2;
  }
  EXPECT_TRUE(is_above_half);
}

TEST(Rng, PermutationHoldsEachOnce) {
  const auto order = permutation(1000, Rng(1, Purpose::kDataOrder, 5));
  EXPECT_EQ(order, permutation(1000, Rng(1, Purpose::kDataOrder, 5)));
  EXPECT_NE(order, permutation(1000, Rng(1, Purpose::kDataOrder, 6)));
  auto sorted = order;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_NE(sorted, order);
  std::vector<int64_t> identity(1000);
  std::iota(identity.begin(), identity.end(), int64_t{0});
  EXPECT_EQ(sorted, identity);
  EXPECT_TRUE(permutation(0, Rng(1, Purpose::kTest)).empty());
}

uint64_t plainly_below(uint64_t bound, Rng& rng) {
  const uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
  uint64_t draw = rng.next_u64();
  while (draw >= limit) draw = rng.next_u64();
  return draw % bound;
}

// Large bounds reject up to half of the draws.
TEST(Rng, BelowRejectsTheTailAlone) {
  constexpr uint64_t kTop = uint64_t{1} << 63;
  for (const uint64_t bound : {uint64_t{1}, uint64_t{3}, kTop / 2 + 5, kTop - 1,
                               kTop, kTop + 1, 3 * (kTop / 2), UINT64_MAX}) {
    Rng rng(5, Purpose::kTest), plain = rng;
    for (int i = 0; i < 200; ++i)
      ASSERT_EQ(rng.below(bound), plainly_below(bound, plain)) << bound;
  }
}

// The textbook's Fisher-Yates. Orders of samples are part of every result, so
// they stay as they are to the last place.
template <typename Value>
void shuffle_plainly(std::vector<Value>& values, Rng rng) {
  for (size_t i = values.size(); i-- > 1;)
    std::swap(values[i], values[plainly_below(i + 1, rng)]);
}

template <typename Value>
void expect_plain_shuffle(size_t size, const Rng& rng) {
  std::vector<Value> values(size);
  for (size_t i = 0; i < size; ++i) values[i] = static_cast<Value>(3 * i + 7);
  std::vector<Value> plain = values;
  shuffle(values, rng);
  shuffle_plainly(plain, rng);
  ASSERT_TRUE(values == plain) << size << " of " << sizeof(Value) << " bytes";
}

TEST(Rng, ShufflesAsTheTextbookDoes) {
  for (const size_t size :
       {0, 1, 2, 3, 63, 64, 65, 66, 127, 128, 129, 130, 1'000, 70'001, 300'000})
    for (const uint64_t seed : {1, 2, 77}) {
      const Rng rng(seed, Purpose::kDataOrder, seed + 3, seed + 4);
      expect_plain_shuffle<int32_t>(size, rng);
      expect_plain_shuffle<int64_t>(size, rng);
      std::vector<int64_t> order(size);
      std::iota(order.begin(), order.end(), int64_t{0});
      shuffle_plainly(order, rng);
      ASSERT_TRUE(permutation(static_cast<int64_t>(size), rng) == order);
    }
}

// Every order of three appears equally often.
TEST(Rng, PermutationIsFair) {
  std::vector<int> counts(9);
  constexpr int kDraws = 6000;
  for (int i = 0; i < kDraws; ++i) {
    const auto p =
        permutation(3, Rng(1, Purpose::kTest, static_cast<uint64_t>(i)));
    ++counts[static_cast<size_t>(p[0] * 3 + p[1])];
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    if (i % 4 == 0)
      EXPECT_EQ(counts[i], 0);  // the same number twice
    else
      EXPECT_NEAR(counts[i], 1000, 145);  // five deviations of 29
  }
}

}  // namespace
}  // namespace syncopate
