#include "ops/sequences.h"

#include <cmath>

#include "reference/sequences.h"
#include "support/guarded_tensor.h"
#include "support/recorded.h"
#include "support/token_batch.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

constexpr uint64_t kSalt = 0x123456789ABCDEF;
// The sample's number has more than 32 bits.
constexpr DropoutKey kKey{0xFEDCBA9876543210, 0xFFFFFFFFE};

std::vector<double> expected(const GuardedTensor& x,
                             const std::vector<int64_t>& lengths,
                             float p,
                             const DropoutKey& key = kKey) {
  return reference::token_dropout(
      x.get(), lengths, x.tensor().shape[1],
      {static_cast<double>(p), key.seed ^ kSalt, key.first_sample});
}

// Rows whose draws begin inside a block of four, and of more than one piece.
TEST(TokenDropout, DrawsAreThoseOfTheContract) {
  const DeviceValues<DropoutKey> key(kKey);
  for (const DType dtype : {DType::kF32, DType::kBf16})
    for (const int64_t H : {1, 3, 8, 30, 64, 771, 1024, 2050})
      for (const float p : {0.0f, 0.1f, 0.5f, 0.999f}) {
        SCOPED_TRACE(fmt::format("{} H {} p {}", name_of(dtype), H, p));
        TestContext test, one(1);
        const TokenBatch batch({5, 1, 13, 2});
        const int64_t T = batch.tokens();
        const GuardedTensor x = random_tensor({T, H}, 1, dtype);
        const GuardedTensor y(dtype, {T, H});
        const TokenDropout dropout{p, p == 0 ? nullptr : key.data(), kSalt};
        token_dropout(test.context, y, x, batch, dropout);
        // 1 / (1 - p) rounds twice, the product once more.
        EXPECT_TRUE(all_near(
            y.get(), expected(x, batch.lengths(), p),
            {0,
             3 * kEpsilonF32 + (dtype == DType::kBf16 ? kEpsilonBf16 : 0.0)}));
        token_dropout(one.context, x, x, batch, dropout);
        EXPECT_EQ(x.bytes(), y.bytes());
      }
}

// A sample's mask depends only on its number.
TEST(TokenDropout, BatchesDoNotMatter) {
  TestContext test;
  constexpr int64_t kH = 33;
  const TokenBatch all({4, 9, 7}), last({7});
  const TokenDropout dropout_all{0.3f, nullptr, kSalt};
  const DeviceValues<DropoutKey> key(kKey),
      later({kKey.seed, kKey.first_sample + 2});
  const GuardedTensor x(DType::kF32, {20, kH}, std::vector<double>(20 * kH, 1));
  const GuardedTensor ones(DType::kF32, {7, kH},
                           std::vector<double>(7 * kH, 1));
  TokenDropout dropout = dropout_all;
  dropout.key = key;
  token_dropout(test.context, x, x, all, dropout);
  dropout.key = later;
  token_dropout(test.context, ones, ones, last, dropout);
  const auto whole = x.get(), part = ones.get();
  EXPECT_EQ(std::vector<double>(whole.begin() + 13 * kH, whole.end()), part);
}

TEST(TokenDropout, KeepsTheRightShare) {
  TestContext test;
  const DeviceValues<DropoutKey> key(kKey);
  const TokenBatch batch({300, 200});
  const GuardedTensor x(DType::kF32, {500, 64},
                        std::vector<double>(500 * 64, 1));
  token_dropout(test.context, x, x, batch, {0.1f, key, kSalt});
  double kept = 0;
  for (const double value : x.get()) kept += value != 0;
  // Five standard deviations of 32,000 draws.
  EXPECT_NEAR(kept / 32000, 0.9, 5 * std::sqrt(0.09 / 32000));
}

TEST(TokenDropout, DroppedIsZeroWhateverItWas) {
  TestContext test;
  const DeviceValues<DropoutKey> key(kKey);
  const TokenBatch batch({3});
  const GuardedTensor x(DType::kF32, {3, 40},
                        std::vector<double>(120, INFINITY));
  token_dropout(test.context, x, x, batch, {0.5f, key, kSalt});
  int64_t zeros = 0;
  for (const double value : x.get()) {
    EXPECT_TRUE(value == 0 || std::isinf(value));
    zeros += value == 0;
  }
  EXPECT_GT(zeros, 20);
}

TEST(TokenDropout, RecordedDrawsAnew) {
  TestContext test;
  const DeviceValues<DropoutKey> key(kKey);
  const TokenBatch batch({6, 11});
  const GuardedTensor x = random_tensor({17, 24}, 1);
  const GuardedTensor y(DType::kF32, {17, 24});
  const auto step = recorded(test, [&] {
    token_dropout(test.context, y, x, batch, {0.4f, key, kSalt});
  });
  for (const uint64_t first : {7, 9}) {
    store_dropout_key(test.context, key, {kKey.seed, first});
    step();
    EXPECT_TRUE(all_near(y.get(),
                         expected(x, batch.lengths(), 0.4f, {kKey.seed, first}),
                         {0, 3 * kEpsilonF32}));
  }
}

}  // namespace
}  // namespace syncopate
