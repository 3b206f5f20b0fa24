#include "ops/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/rng.h"
#include "reference/compression.h"
#include "support/guarded_tensor.h"
#include "support/recorded.h"
#include "support/test_device.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;
using reference::Begins;
using reference::Words;

constexpr Draw kDraw{.seed = 0x123456789ABCDEF0, .worker = 3, .step = 41};
const double kNan = std::numeric_limits<double>::quiet_NaN();

GuardedTensor empty(int64_t elems) {
  return {DType::kF32, {elems}};
}

// Words of the device with guards around them; all bits set at first.
struct WordsOnDevice {
  GuardedTensor memory;
  explicit WordsOnDevice(int64_t count) : memory(DType::kI32, Shape{count}) {}
  explicit WordsOnDevice(const Words& words)
      : WordsOnDevice(std::ssize(words)) {
    std::vector<double> values;
    for (const uint32_t word : words)
      values.push_back(static_cast<double>(static_cast<int32_t>(word)));
    memory.set(values);
  }
  std::span<uint32_t> span() const {
    const Tensor t = memory.tensor();
    return {static_cast<uint32_t*>(t.data), static_cast<size_t>(t.elems())};
  }
  Words get() const {
    Words words;
    for (const double value : memory.get())
      words.push_back(static_cast<uint32_t>(static_cast<int32_t>(value)));
    return words;
  }
};

// Tensors of these sizes, one behind the other.
Begins begins_of(const std::vector<int64_t>& sizes) {
  Begins begins{0};
  for (const int64_t size : sizes) begins.push_back(begins.back() + size);
  return begins;
}

// Around groups of 32, tiles of 128 and 256, chunks of 4096 and pieces of
// 8192; many tensors inside one group.
std::vector<Begins> layouts() {
  std::vector<int64_t> tiny(150, 1);
  for (size_t i = 0; i < tiny.size(); i += 3) tiny[i] = 1 + i % 4;
  return {begins_of({1}),
          begins_of({31}),
          begins_of({32}),
          begins_of({33}),
          begins_of(tiny),
          begins_of({1, 127, 128, 129, 2, 3}),
          begins_of({4095, 1, 4097, 40, 8192, 5}),
          begins_of({17, 12289, 4096, 64, 3})};
}

// Values with zeros of both signs among them, and a tensor of zeros.
std::vector<double> values_for(const Begins& begins) {
  auto x = random_values(begins.back(), 7);
  for (size_t i = 0; i < x.size(); i += 13) x[i] = i % 2 == 0 ? 0.0 : -0.0;
  if (begins.size() > 3)
    std::fill(x.begin() + begins[2], x.begin() + begins[3], -0.0);
  return x;
}

// FNV-1a: what every device, processor and number of threads must agree on.
class Digest {
 public:
  Digest& operator<<(const std::vector<char>& bytes) {
    for (const char byte : bytes)
      hash_ = (hash_ ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
    return *this;
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xCBF29CE484222325;
};

TEST(Quantize, SegmentsAreCutIntoChunksInOrder) {
  TestContext test;
  const Segments segments(test.context, begins_of({5, 4096, 4097, 1}));
  EXPECT_EQ(segments.num_segments(), 4);
  EXPECT_EQ(segments.num_elems(), 8199);
  EXPECT_EQ(segments.begin(2), 4101);
  EXPECT_EQ(segments.elems(2), 4097);
  EXPECT_EQ(segments.first_chunks(), (std::vector<int64_t>{0, 1, 2, 4, 5}));
  int64_t at = 0;
  for (const Segments::Chunk& chunk : segments.chunks()) {
    EXPECT_EQ(chunk.begin, at);
    EXPECT_GE(chunk.begin, segments.begin(chunk.segment));
    EXPECT_LE(chunk.begin + chunk.elems, segments.begin(chunk.segment + 1));
    EXPECT_LE(chunk.elems, Segments::kChunkElems);
    at += chunk.elems;
  }
  EXPECT_EQ(at, segments.num_elems());
}

TEST(Quantize, CodesAreSizedAsTheHeaderSays) {
  EXPECT_EQ(packed_words(0, 3), 0);
  EXPECT_EQ(packed_words(1, 3), 3);
  EXPECT_EQ(packed_words(32, 3), 3);
  EXPECT_EQ(packed_words(33, 17), 34);
  EXPECT_EQ(bits_of_level(1), 1);
  EXPECT_EQ(bits_of_level(3), 2);
  EXPECT_EQ(bits_of_level(4), 3);
  EXPECT_EQ(bits_of_level(65535), 16);
}

TEST(Quantize, SignEncodeFollowsItsFormula) {
  for (const Begins& begins : layouts()) {
    TestContext test;
    const Segments segments(test.context, begins);
    const GuardedTensor x = flat(values_for(begins));
    const WordsOnDevice words(packed_words(begins.back(), 1));
    const GuardedTensor scales = empty(segments.num_segments());
    sign_encode(test.context, words.span(), scales, x, segments);
    const auto expected = reference::sign(begins, x.get());
    EXPECT_EQ(words.get(), reference::pack(expected.codes, 1));
    // Summed in double, rounded once; the reference sums in another order.
    EXPECT_TRUE(
        all_near(scales.get(), expected.scales, {0, (1 + 1e-6) * kEpsilonF32}));
  }
}

TEST(Quantize, SignBlendFollowsItsFormula) {
  for (const Begins& begins : layouts())
    for (const auto& [a, b] :
         {std::pair<float, float>{1, 1}, {0, 1}, {0.75f, -0.5f}, {0, 0.3f}}) {
      TestContext test;
      const Segments segments(test.context, begins);
      const auto code = reference::sign(begins, values_for(begins));
      const WordsOnDevice words(reference::pack(code.codes, 1));
      const GuardedTensor scales = flat(code.scales);
      auto start = random_values(begins.back(), 9);
      if (a == 0) start.assign(start.size(), kNan);
      const GuardedTensor y = flat(start);
      auto expected = y.get();
      for (size_t i = 0; i < expected.size(); ++i)
        expected[i] =
            (a == 0 ? 0 : double{a} * expected[i]) + double{b} * code.q[i];
      sign_blend(test.context, y, words.span(), scales, segments, a, b);
      // The scale, its product and the sum are rounded; values below 2.
      EXPECT_TRUE(all_near(y.get(), expected, {4 * kEpsilonF32, 0}));
    }
}

// |x - q|^2 = |x|^2 - |x|_1^2 / d: what sign with its scale contracts by.
TEST(Quantize, SignContractsExactlyAsItsBound) {
  TestContext test;
  const Begins begins = begins_of({1, 50, 4000});
  const Segments segments(test.context, begins);
  const GuardedTensor x = flat(begins.back(), 11);
  const WordsOnDevice words(packed_words(begins.back(), 1));
  const GuardedTensor scales = empty(3), q = empty(begins.back());
  sign_encode(test.context, words.span(), scales, x, segments);
  sign_blend(test.context, q, words.span(), scales, segments, 0, 1);
  const auto xs = x.get(), qs = q.get();
  for (size_t tensor = 0; tensor < 3; ++tensor) {
    double error = 0, squares = 0, sum = 0;
    for (int64_t i = begins[tensor]; i < begins[tensor + 1]; ++i) {
      error += (xs[i] - qs[i]) * (xs[i] - qs[i]);
      squares += xs[i] * xs[i];
      sum += std::fabs(xs[i]);
    }
    const auto d = static_cast<double>(begins[tensor + 1] - begins[tensor]);
    // A scale off by an epsilon shifts the error by its square.
    EXPECT_NEAR(error, squares - sum * sum / d, 1e-12 * squares * d);
  }
}

constexpr int64_t kLevels[] = {1, 3, 15, 16, 255, 65535};

std::vector<double> draws_for(int64_t count, const Draw& draw) {
  Rng rng(draw.seed, Purpose::kQuantize, draw.worker, draw.step);
  std::vector<double> u;
  for (int64_t i = 0; i < count; ++i)
    u.push_back(static_cast<double>(rng.next_u32() >> 8) * 0x1.0p-24);
  return u;
}

struct Encoded {
  WordsOnDevice words;
  GuardedTensor norms;
};
Encoded encode(TestContext& test,
               const GuardedTensor& x,
               const Segments& segments,
               const QsgdParams& params,
               const Draw& draw = kDraw) {
  Encoded out{WordsOnDevice(packed_words(segments.num_elems(),
                                         1 + bits_of_level(params.levels))),
              empty(segments.num_segments())};
  qsgd_encode(test.context, out.words.span(), out.norms, x, segments, params,
              draw);
  return out;
}

TEST(Quantize, QsgdEncodeFollowsItsFormula) {
  for (const Begins& begins : layouts())
    for (const int64_t levels : kLevels) {
      TestContext test;
      const Segments segments(test.context, begins);
      const GuardedTensor x = flat(values_for(begins));
      const Encoded got = encode(test, x, segments, {levels, false});
      auto expected = reference::qsgd_encode({levels, false}, begins, x.get(),
                                             draws_for(begins.back(), kDraw));
      EXPECT_TRUE(all_near(got.norms.get(), expected.norms,
                           {0, (1 + 1e-6) * kEpsilonF32}));
      // l has three roundings: where u is that close, up or down are right.
      const int64_t bits = 1 + bits_of_level(levels);
      const Words codes =
          reference::unpack(got.words.get(), bits, begins.back());
      const double margin = 4 * kEpsilonF32 * static_cast<double>(levels);
      for (size_t i = 0; i < codes.size(); ++i) {
        const double distance = std::fabs(expected.to_threshold[i]);
        // Also where l is next to an integer, and the fraction about 0 or 1.
        if (distance > margin && distance < 1 - margin) continue;
        EXPECT_LE(std::fabs(double{1} * codes[i] - expected.codes[i]), 2);
        EXPECT_EQ(codes[i] % 2, expected.codes[i] % 2);
        expected.codes[i] = codes[i];
      }
      EXPECT_EQ(got.words.get(), reference::pack(expected.codes, bits))
          << begins.back() << " elements, levels " << levels;
    }
}

// Equal magnitudes, 4^k of them: l is s / 2^k without rounding, so nothing is
// near a threshold by rounding.
TEST(Quantize, QsgdEncodeIsExactWhereItsArithmeticIs) {
  TestContext test;
  const Begins begins = begins_of({1, 4, 16, 1, 64, 256, 1024, 4096, 16384});
  const Segments segments(test.context, begins);
  auto signs = random_values(begins.back(), 4);
  for (double& value : signs) value = value < 0 ? -0.375 : 0.375;
  const GuardedTensor x = flat(signs);
  for (const int64_t levels : kLevels) {
    const Encoded got = encode(test, x, segments, {levels, false});
    const auto expected = reference::qsgd_encode(
        {levels, false}, begins, signs, draws_for(begins.back(), kDraw));
    EXPECT_EQ(got.words.get(),
              reference::pack(expected.codes, 1 + bits_of_level(levels)));
    EXPECT_EQ(got.norms.get(), expected.norms);
  }
}

TEST(Quantize, QsgdBlendFollowsItsFormula) {
  for (const Begins& begins : layouts())
    for (const int64_t levels : kLevels)
      for (const auto& [a, b, is_biased] :
           {std::tuple<float, float, bool>{1, 1, false},
            {0, 1, true},
            {0.75f, -0.5f, true}}) {
        TestContext test;
        const Segments segments(test.context, begins);
        const auto code = reference::qsgd_encode(
            {levels, is_biased}, begins, values_for(begins),
            draws_for(begins.back(), kDraw));
        const WordsOnDevice words(
            reference::pack(code.codes, 1 + bits_of_level(levels)));
        const GuardedTensor norms = flat(code.norms);
        auto start = random_values(begins.back(), 9);
        if (a == 0) start.assign(start.size(), kNan);
        const GuardedTensor y = flat(start);
        const auto q = reference::qsgd_decode({levels, is_biased}, begins,
                                              code.codes, norms.get());
        auto expected = y.get();
        for (size_t i = 0; i < expected.size(); ++i)
          expected[i] =
              (a == 0 ? 0 : double{a} * expected[i]) + double{b} * q[i];
        qsgd_blend(test.context, y, words.span(), norms, segments,
                   {levels, is_biased}, a, b);
        // A level's worth, its product with b, q and the sum are rounded.
        const double size = 1 + largest_magnitude(q);
        EXPECT_TRUE(all_near(y.get(), expected, {4 * size * kEpsilonF32, 0}));
      }
}

TEST(Quantize, BiasedFactorIsTheFormulas) {
  TestContext test;
  for (const auto& [d, levels] :
       {std::pair<int64_t, int64_t>{1, 1}, {100, 3}, {100, 15}, {5000, 255}}) {
    const Segments segments(test.context, begins_of({d}));
    const GuardedTensor x = flat(d, 3);
    const Encoded code = encode(test, x, segments, {levels, false});
    const GuardedTensor biased = empty(d), plain = empty(d);
    for (const bool is_biased : {false, true})
      qsgd_blend(test.context, is_biased ? biased : plain, code.words.span(),
                 code.norms, segments, {levels, is_biased}, 0, 1);
    const auto s = static_cast<double>(levels), n = static_cast<double>(d);
    const double c = 1 / (1 + std::min(n / (s * s), std::sqrt(n) / s));
    auto expected = plain.get();
    for (double& value : expected) value *= c;
    EXPECT_TRUE(all_near(biased.get(), expected, {0, 5 * kEpsilonF32}));
  }
}

// The mean over N draws is off by at most norm / (2 s sqrt(N)) a standard
// deviation.
TEST(Quantize, QsgdIsUnbiased) {
  constexpr int kDraws = 1500;
  TestContext test;
  const Begins begins = begins_of({40, 1, 60});
  const Segments segments(test.context, begins);
  const GuardedTensor x = flat(begins.back(), 12);
  for (const int64_t levels : {1, 3}) {
    const QsgdParams params{levels, false};
    const GuardedTensor sum =
        flat(std::vector<double>(static_cast<size_t>(begins.back())));
    std::vector<double> norms;
    for (uint64_t step = 0; step < kDraws; ++step) {
      const Encoded code = encode(test, x, segments, params, {5, 2, step});
      qsgd_blend(test.context, sum, code.words.span(), code.norms, segments,
                 params, 1, 1);
      norms = code.norms.get();
    }
    const auto xs = x.get(), sums = sum.get();
    for (size_t tensor = 0; tensor < norms.size(); ++tensor)
      for (int64_t i = begins[tensor]; i < begins[tensor + 1]; ++i)
        EXPECT_NEAR(sums[i] / kDraws, xs[i],
                    // 5 of them, and the sum's roundings.
                    5 * norms[tensor] /
                            (2 * static_cast<double>(levels) *
                             std::sqrt(double{kDraws})) +
                        1e-5);
  }
}

TEST(Quantize, DrawsDependOnSeedWorkerAndStep) {
  TestContext test;
  const Segments segments(test.context, begins_of({1000}));
  const GuardedTensor x = flat(1000, 12);
  std::vector<Words> seen;
  for (const Draw& draw :
       {Draw{1, 2, 3}, Draw{2, 2, 3}, Draw{1, 3, 3}, Draw{1, 2, 4},
        Draw{1 | uint64_t{1} << 40, 2, 3}, Draw{1, 2 | uint64_t{1} << 40, 3},
        Draw{1, 2, 3 | uint64_t{1} << 41}}) {
    seen.push_back(encode(test, x, segments, {3, false}, draw).words.get());
    const auto expected = reference::qsgd_encode(
        {3, false}, begins_of({1000}), x.get(), draws_for(1000, draw));
    EXPECT_EQ(seen.back(), reference::pack(expected.codes, 3));
  }
  for (size_t i = 0; i < seen.size(); ++i)
    for (size_t j = 0; j < i; ++j) EXPECT_NE(seen[i], seen[j]);
}

TEST(Quantize, NoTensorsAreNoWork) {
  TestContext test;
  const Segments segments(test.context, {0});
  EXPECT_EQ(segments.num_segments(), 0);
  EXPECT_EQ(segments.num_elems(), 0);
  sign_encode(test.context, {}, {}, {}, segments);
  sign_blend(test.context, {}, {}, {}, segments, 1, 1);
  qsgd_encode(test.context, {}, {}, {}, segments, {3, false}, kDraw);
  qsgd_blend(test.context, {}, {}, {}, segments, {3, false}, 1, 1);
}

// The bits of scales, words and blended values, for any number of threads.
TEST(Quantize, BitsAreTheSameOnEveryDevice) {
  const Begins begins = begins_of({4095, 1, 9000, 40, 8192, 5, 31});
  const GuardedTensor x = flat(values_for(begins));
  const auto digest = [&](int threads) {
    TestContext test(threads);
    const Segments segments(test.context, begins);
    const GuardedTensor y = flat(begins.back(), 3);
    const WordsOnDevice signs(packed_words(begins.back(), 1));
    const GuardedTensor scales = empty(segments.num_segments());
    sign_encode(test.context, signs.span(), scales, x, segments);
    sign_blend(test.context, y, signs.span(), scales, segments, 0.7f, 0.3f);
    Digest digest;
    digest << signs.memory.bytes() << scales.bytes() << y.bytes();
    for (const int64_t levels : kLevels) {
      const QsgdParams params{levels, true};
      const Encoded code = encode(test, x, segments, params);
      qsgd_blend(test.context, y, code.words.span(), code.norms, segments,
                 params, 0.7f, 0.3f);
      digest << code.words.memory.bytes() << code.norms.bytes() << y.bytes();
    }
    return digest.value();
  };
  constexpr uint64_t kBits = 0xa06ffdd60e5ff129;
  for (const int threads : {1, 2, 3}) EXPECT_EQ(digest(threads), kBits);
}

// Ranges begin where they like.
TEST(Quantize, RangesNeedNotBeAligned) {
  TestContext test;
  const Begins begins = begins_of({100, 3, 5000});
  const int64_t D = begins.back();
  const Segments segments(test.context, begins);
  const auto values = random_values(D, 1);
  const QsgdParams params{15, false};
  const GuardedTensor x = flat(values), y = flat(values);
  const Encoded code = encode(test, x, segments, params);
  qsgd_blend(test.context, y, code.words.span(), code.norms, segments, params,
             1, -1);
  for (const size_t shift : {1, 2, 3}) {
    std::vector<double> moved(shift, kNan);
    moved.insert(moved.end(), values.begin(), values.end());
    const GuardedTensor elsewhere = flat(moved);
    const auto range = elsewhere.span().subspan(shift);
    const WordsOnDevice words(std::ssize(code.words.span()));
    const GuardedTensor norms = empty(3);
    qsgd_encode(test.context, words.span(), norms, range, segments, params,
                kDraw);
    EXPECT_EQ(words.get(), code.words.get());
    EXPECT_EQ(norms.bytes(), code.norms.bytes());
    qsgd_blend(test.context, range, words.span(), norms, segments, params, 1,
               -1);
    auto expected = y.get();
    auto got = elsewhere.get();
    got.erase(got.begin(), got.begin() + static_cast<int64_t>(shift));
    EXPECT_EQ(got, expected);
    const WordsOnDevice signs(packed_words(D, 1)), aligned(packed_words(D, 1));
    sign_encode(test.context, signs.span(), norms, range, segments);
    sign_encode(test.context, aligned.span(), norms, y, segments);
    EXPECT_EQ(signs.get(), aligned.get());
    sign_blend(test.context, range, signs.span(), norms, segments, 1, 1);
    const GuardedTensor z = flat(expected);
    sign_blend(test.context, z, signs.span(), norms, segments, 1, 1);
    got = elsewhere.get();
    got.erase(got.begin(), got.begin() + static_cast<int64_t>(shift));
    EXPECT_EQ(got, z.get());
  }
}

// Nothing ends the program; the tensor with it decodes to no numbers, the
// others as always.
TEST(Quantize, WhatIsNotANumberStaysInItsTensor) {
  TestContext test;
  const Begins begins = begins_of({50, 3, 200});
  const Segments segments(test.context, begins);
  for (const double bad : {kNan, -kNan, HUGE_VAL, -HUGE_VAL}) {
    auto values = random_values(begins.back(), 1);
    values[51] = bad;
    const GuardedTensor x = flat(values), q = empty(begins.back());
    const auto check = [&](double scale) {
      EXPECT_FALSE(std::isfinite(scale));
      const auto decoded = q.get();
      for (size_t i = 0; i < decoded.size(); ++i)
        EXPECT_EQ(std::isfinite(decoded[i]), i < 50 || i >= 53) << i;
    };
    const WordsOnDevice words(packed_words(begins.back(), 1));
    const GuardedTensor scales = empty(3);
    sign_encode(test.context, words.span(), scales, x, segments);
    sign_blend(test.context, q, words.span(), scales, segments, 0, 1);
    check(scales.get()[1]);
    for (const int64_t levels : kLevels) {
      const QsgdParams params{levels, false};
      const Encoded code = encode(test, x, segments, params);
      qsgd_blend(test.context, q, code.words.span(), code.norms, segments,
                 params, 0, 1);
      check(code.norms.get()[1]);
    }
  }
}

// The least and the largest numbers there are.
TEST(Quantize, QsgdOfExtremeMagnitudes) {
  TestContext test;
  const Segments segments(test.context, begins_of({1, 4, 9}));
  for (const double size : {0x1.0p-149, 0x1.0p-126, 1e-30, 1e37}) {
    const std::vector<double> values(14, -size);
    const GuardedTensor x = flat(values), q = empty(14);
    const QsgdParams params{255, false};
    const Encoded code = encode(test, x, segments, params);
    qsgd_blend(test.context, q, code.words.span(), code.norms, segments, params,
               0, 1);
    const auto norms = code.norms.get(), got = q.get();
    EXPECT_TRUE(all_near(norms,
                         {x.get()[0] * -1, x.get()[0] * -2, x.get()[0] * -3},
                         {0, 2 * kEpsilonF32}));
    // A level of them: 1/255 of the norm, itself a number of fp32.
    for (size_t i = 0; i < got.size(); ++i) {
      const double norm = norms[i == 0 ? 0 : i < 5 ? 1 : 2];
      EXPECT_NEAR(got[i], -size, norm / 255 * 1.01 + 255 * 0x1.0p-149);
    }
  }
}

TEST(Quantize, RecordedWorkFollowsItsInput) {
  TestContext test;
  const Begins begins = begins_of({300, 7});
  const Segments segments(test.context, begins);
  GuardedTensor x = flat(307, 1);
  const GuardedTensor q = empty(307);
  const QsgdParams params{3, true};
  const WordsOnDevice words(packed_words(307, 3));
  const GuardedTensor norms = empty(2);
  const auto step = recorded(test, [&] {
    qsgd_encode(test.context, words.span(), norms, x, segments, params, kDraw);
    qsgd_blend(test.context, q, words.span(), norms, segments, params, 0, 1);
  });
  for (const uint64_t seed : {2, 3}) {
    x.set(random_values(307, seed));
    step();
    const auto expected = reference::qsgd_encode({3, true}, begins, x.get(),
                                                 draws_for(307, kDraw));
    EXPECT_EQ(words.get(), reference::pack(expected.codes, 3));
    EXPECT_TRUE(all_near(
        q.get(),
        reference::qsgd_decode({3, true}, begins, expected.codes, norms.get()),
        {0, 4 * kEpsilonF32}));
  }
}

}  // namespace
}  // namespace syncopate
