#include "ops/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

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
  void set(const Words& words) {
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

// A range's code on the device.
struct Code {
  Begins begins;
  std::optional<QsgdParams> qsgd;  // none: signs
  TestContext test;
  Segments segments{test.context, begins};
  int64_t bits = qsgd ? 1 + bits_of_level(qsgd->levels) : 1;
  WordsOnDevice words{packed_words(begins.back(), bits)};
  GuardedTensor sizes = empty(segments.num_segments());  // scales or norms

  explicit Code(const Begins& of,
                const std::optional<QsgdParams>& params = {},
                int threads = 2)
      : begins(of), qsgd(params), test(threads) {}

  void encode(std::span<const float> x, const Draw& draw = kDraw) {
    if (qsgd)
      qsgd_encode(test.context, words.span(), sizes, x, segments, *qsgd, draw);
    else
      sign_encode(test.context, words.span(), sizes, x, segments);
  }
  void blend(std::span<float> y, float a, float b) {
    if (qsgd)
      qsgd_blend(test.context, y, words.span(), sizes, segments, *qsgd, a, b);
    else
      sign_blend(test.context, y, words.span(), sizes, segments, a, b);
  }
  std::vector<double> decoded() {
    const GuardedTensor q = empty(begins.back());
    blend(q, 0, 1);
    return q.get();
  }
  // Expects a q0 + b q for the compressed value q; q0 has no effect if a is 0.
  void expect_blend(const std::vector<double>& q,
                    float a,
                    float b,
                    const Tolerance& tolerance) {
    auto start = random_values(begins.back(), 9);
    if (a == 0) start.assign(start.size(), kNan);
    const GuardedTensor y = flat(start);
    auto expected = y.get();
    for (size_t i = 0; i < expected.size(); ++i)
      expected[i] = (a == 0 ? 0 : double{a} * expected[i]) + double{b} * q[i];
    blend(y, a, b);
    EXPECT_TRUE(all_near(y.get(), expected, tolerance));
  }
};

constexpr int64_t kLevels[] = {1, 3, 15, 16, 255, 65535};

// Signs, and all numbers of levels.
std::vector<std::optional<QsgdParams>> all_codes(bool is_biased) {
  std::vector<std::optional<QsgdParams>> codes = {std::nullopt};
  for (const int64_t levels : kLevels) codes.push_back({{levels, is_biased}});
  return codes;
}

// Contiguous tensors of these sizes.
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
    Code code(begins);
    const GuardedTensor x = flat(values_for(begins));
    code.encode(x);
    const auto expected = reference::sign(begins, x.get());
    EXPECT_EQ(code.words.get(), reference::pack(expected.codes, 1));
    // Summed in double, rounded once; the reference sums in another order.
    EXPECT_TRUE(all_near(code.sizes.get(), expected.scales,
                         {0, (1 + 1e-6) * kEpsilonF32}));
  }
}

TEST(Quantize, SignBlendFollowsItsFormula) {
  for (const Begins& begins : layouts())
    for (const auto& [a, b] :
         {std::pair<float, float>{1, 1}, {0, 1}, {0.75f, -0.5f}, {0, 0.3f}}) {
      Code code(begins);
      const auto sign = reference::sign(begins, values_for(begins));
      code.words.set(reference::pack(sign.codes, 1));
      code.sizes.set(sign.scales);
      // The scale, its product and the sum are rounded; values below 2.
      code.expect_blend(sign.q, a, b, {4 * kEpsilonF32, 0});
    }
}

// |x - q|^2 = |x|^2 - |x|_1^2 / d: what sign with its scale contracts by.
TEST(Quantize, SignContractsExactlyAsItsBound) {
  const Begins begins = begins_of({1, 50, 4000});
  Code code(begins);
  const GuardedTensor x = flat(begins.back(), 11);
  code.encode(x);
  const auto xs = x.get(), qs = code.decoded();
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

std::vector<double> draws_for(int64_t count, const Draw& draw) {
  Rng rng(draw.seed, Purpose::kQuantize, draw.worker, draw.step);
  std::vector<double> u;
  for (int64_t i = 0; i < count; ++i)
    u.push_back(static_cast<double>(rng.next_u32() >> 8) * 0x1.0p-24);
  return u;
}

TEST(Quantize, QsgdEncodeFollowsItsFormula) {
  for (const Begins& begins : layouts())
    for (const int64_t levels : kLevels) {
      Code code(begins, QsgdParams{levels, false});
      const GuardedTensor x = flat(values_for(begins));
      code.encode(x);
      auto expected = reference::qsgd_encode({levels, false}, begins, x.get(),
                                             draws_for(begins.back(), kDraw));
      EXPECT_TRUE(all_near(code.sizes.get(), expected.norms,
                           {0, (1 + 1e-6) * kEpsilonF32}));
      // l has three roundings: where u is that close, up or down are right.
      const Words codes =
          reference::unpack(code.words.get(), code.bits, begins.back());
      const double margin = 4 * kEpsilonF32 * static_cast<double>(levels);
      for (size_t i = 0; i < codes.size(); ++i) {
        const double distance = std::fabs(expected.to_threshold[i]);
        // Also where l is next to an integer, and the fraction about 0 or 1.
        if (distance > margin && distance < 1 - margin) continue;
        EXPECT_LE(std::fabs(double{1} * codes[i] - expected.codes[i]), 2);
        EXPECT_EQ(codes[i] % 2, expected.codes[i] % 2);
        expected.codes[i] = codes[i];
      }
      EXPECT_EQ(code.words.get(), reference::pack(expected.codes, code.bits))
          << begins.back() << " elements, levels " << levels;
    }
}

// Equal magnitudes, 4^k of them: l is s / 2^k without rounding, so nothing is
// near a threshold by rounding.
TEST(Quantize, QsgdEncodeIsExactWhereItsArithmeticIs) {
  const Begins begins = begins_of({1, 4, 16, 1, 64, 256, 1024, 4096, 16384});
  auto signs = random_values(begins.back(), 4);
  for (double& value : signs) value = value < 0 ? -0.375 : 0.375;
  const GuardedTensor x = flat(signs);
  for (const int64_t levels : kLevels) {
    Code code(begins, QsgdParams{levels, false});
    code.encode(x);
    const auto expected = reference::qsgd_encode(
        {levels, false}, begins, signs, draws_for(begins.back(), kDraw));
    EXPECT_EQ(code.words.get(), reference::pack(expected.codes, code.bits));
    EXPECT_EQ(code.sizes.get(), expected.norms);
  }
}

TEST(Quantize, QsgdBlendFollowsItsFormula) {
  for (const Begins& begins : layouts())
    for (const int64_t levels : kLevels)
      for (const auto& [a, b, is_biased] :
           {std::tuple<float, float, bool>{1, 1, false},
            {0, 1, true},
            {0.75f, -0.5f, true}}) {
        Code code(begins, QsgdParams{levels, is_biased});
        const reference::Qsgd qsgd{levels, is_biased};
        const auto encoded = reference::qsgd_encode(
            qsgd, begins, values_for(begins), draws_for(begins.back(), kDraw));
        code.words.set(reference::pack(encoded.codes, code.bits));
        code.sizes.set(encoded.norms);
        const auto q = reference::qsgd_decode(qsgd, begins, encoded.codes,
                                              code.sizes.get());
        // A level's worth, its product with b, q and the sum are rounded.
        const double size = 1 + largest_magnitude(q);
        code.expect_blend(q, a, b, {4 * size * kEpsilonF32, 0});
      }
}

TEST(Quantize, BiasedFactorIsTheFormulas) {
  for (const auto& [d, levels] :
       {std::pair<int64_t, int64_t>{1, 1}, {100, 3}, {100, 15}, {5000, 255}}) {
    Code code(begins_of({d}), QsgdParams{levels, false});
    code.encode(flat(d, 3));
    auto expected = code.decoded();
    code.qsgd->is_biased = true;
    const auto s = static_cast<double>(levels), n = static_cast<double>(d);
    const double c = 1 / (1 + std::min(n / (s * s), std::sqrt(n) / s));
    for (double& value : expected) value *= c;
    EXPECT_TRUE(all_near(code.decoded(), expected, {0, 5 * kEpsilonF32}));
  }
}

// The standard deviation of the mean over N draws is at most
// norm / (2 s sqrt(N)).
TEST(Quantize, QsgdIsUnbiased) {
  constexpr int kDraws = 600;
  const Begins begins = begins_of({40, 1, 60});
  const GuardedTensor x = flat(begins.back(), 12);
  for (const int64_t levels : {1, 3}) {
    Code code(begins, QsgdParams{levels, false});
    const GuardedTensor sum =
        flat(std::vector<double>(static_cast<size_t>(begins.back())));
    for (uint64_t step = 0; step < kDraws; ++step) {
      code.encode(x, {5, 2, step});
      code.blend(sum, 1, 1);
    }
    const auto xs = x.get(), sums = sum.get(), norms = code.sizes.get();
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
  Code code(begins_of({1000}), QsgdParams{3, false});
  const GuardedTensor x = flat(1000, 12);
  std::vector<Words> seen;
  for (const Draw& draw :
       {Draw{1, 2, 3}, Draw{2, 2, 3}, Draw{1, 3, 3}, Draw{1, 2, 4},
        Draw{1 | uint64_t{1} << 40, 2, 3}, Draw{1, 2 | uint64_t{1} << 40, 3},
        Draw{1, 2, 3 | uint64_t{1} << 41}}) {
    code.encode(x, draw);
    seen.push_back(code.words.get());
    const auto expected = reference::qsgd_encode(
        {3, false}, code.begins, x.get(), draws_for(1000, draw));
    EXPECT_EQ(seen.back(), reference::pack(expected.codes, 3));
  }
  for (size_t i = 0; i < seen.size(); ++i)
    for (size_t j = 0; j < i; ++j) EXPECT_NE(seen[i], seen[j]);
}

TEST(Quantize, NoTensorsAreNoWork) {
  for (const auto& params : all_codes(false)) {
    Code code({0}, params);
    EXPECT_EQ(code.segments.num_segments(), 0);
    EXPECT_EQ(code.segments.num_elems(), 0);
    code.encode({});
    code.blend({}, 1, 1);
  }
}

// The bits of scales, words and blended values, for any number of threads.
TEST(Quantize, BitsAreTheSameOnEveryDevice) {
  const Begins begins = begins_of({4095, 1, 9000, 40, 8192, 5, 31});
  const GuardedTensor x = flat(values_for(begins));
  constexpr uint64_t kBits = 0xa06ffdd60e5ff129;
  for (const int threads : {1, 2, 3}) {
    const GuardedTensor y = flat(begins.back(), 3);
    Digest digest;
    for (const auto& params : all_codes(true)) {
      Code code(begins, params, threads);
      code.encode(x);
      code.blend(y, 0.7f, 0.3f);
      digest << code.words.memory.bytes() << code.sizes.bytes() << y.bytes();
    }
    EXPECT_EQ(digest.value(), kBits);
  }
}

// Ranges begin where they like.
TEST(Quantize, RangesNeedNotBeAligned) {
  const Begins begins = begins_of({100, 3, 5000});
  const auto values = random_values(begins.back(), 1);
  for (const auto& params : all_codes(false)) {
    Code aligned(begins, params);
    const GuardedTensor y = flat(values);
    aligned.encode(y);
    aligned.blend(y, 1, -1);
    for (const size_t shift : {1, 2, 3}) {
      Code code(begins, params);
      const GuardedTensor elsewhere = flat(moved_by(shift, kNan, values));
      const auto range = elsewhere.span().subspan(shift);
      code.encode(range);
      EXPECT_EQ(code.words.get(), aligned.words.get());
      EXPECT_EQ(code.sizes.bytes(), aligned.sizes.bytes());
      code.blend(range, 1, -1);
      auto got = elsewhere.get();
      got.erase(got.begin(), got.begin() + static_cast<int64_t>(shift));
      EXPECT_EQ(got, y.get());
    }
  }
}

// The program goes on; the affected tensor decodes to NaNs or infinities, the
// others as always.
TEST(Quantize, WhatIsNotANumberStaysInItsTensor) {
  const Begins begins = begins_of({50, 3, 200});
  for (const double bad : {kNan, -kNan, HUGE_VAL, -HUGE_VAL})
    for (const auto& params : all_codes(false)) {
      Code code(begins, params);
      auto values = random_values(begins.back(), 1);
      values[51] = bad;
      code.encode(flat(values));
      EXPECT_FALSE(std::isfinite(code.sizes.get()[1]));
      const auto decoded = code.decoded();
      for (size_t i = 0; i < decoded.size(); ++i)
        EXPECT_EQ(std::isfinite(decoded[i]), i < 50 || i >= 53) << i;
    }
}

// The smallest and the largest magnitudes of fp32.
TEST(Quantize, QsgdOfExtremeMagnitudes) {
  for (const double size : {0x1.0p-149, 0x1.0p-126, 1e-30, 1e37}) {
    Code code(begins_of({1, 4, 9}), QsgdParams{255, false});
    const GuardedTensor x = flat(std::vector<double>(14, -size));
    code.encode(x);
    const auto norms = code.sizes.get(), got = code.decoded();
    EXPECT_TRUE(all_near(norms,
                         {x.get()[0] * -1, x.get()[0] * -2, x.get()[0] * -3},
                         {0, 2 * kEpsilonF32}));
    // One level is 1/255 of the norm, which is itself an fp32 number.
    for (size_t i = 0; i < got.size(); ++i) {
      const double norm = norms[i == 0 ? 0 : i < 5 ? 1 : 2];
      EXPECT_NEAR(got[i], -size, norm / 255 * 1.01 + 255 * 0x1.0p-149);
    }
  }
}

TEST(Quantize, RecordedWorkFollowsItsInput) {
  const reference::Qsgd qsgd{3, true};
  Code code(begins_of({300, 7}), QsgdParams{3, true});
  GuardedTensor x = flat(307, 1);
  const GuardedTensor q = empty(307);
  const auto step = recorded(code.test, [&] {
    code.encode(x);
    code.blend(q, 0, 1);
  });
  for (const uint64_t seed : {2, 3}) {
    x.set(random_values(307, seed));
    step();
    const auto expected = reference::qsgd_encode(qsgd, code.begins, x.get(),
                                                 draws_for(307, kDraw));
    EXPECT_EQ(code.words.get(), reference::pack(expected.codes, 3));
    const auto decoded = reference::qsgd_decode(
        qsgd, code.begins, expected.codes, code.sizes.get());
    EXPECT_TRUE(all_near(q.get(), decoded, {0, 4 * kEpsilonF32}));
  }
}

}  // namespace
}  // namespace syncopate
