#include "ops/elementwise.h"

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "support/guarded_tensor.h"
#include "support/recorded.h"
#include "support/test_device.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

// Around vectors of 16, pieces of 8192 and what is worth a team.
constexpr int64_t kSizes[] = {0, 1, 15, 16, 17, 8191, 8193, 50001};

// Elements [begin, begin + count) of a flat tensor.
Tensor slice(const GuardedTensor& t, int64_t begin, int64_t count) {
  const Tensor whole = t.tensor();
  return make_tensor(
      static_cast<char*>(whole.data) + begin * bytes_of(whole.dtype),
      whole.dtype, {count});
}
std::vector<Layout> image_layouts() {
  if (test_device().kind() != DeviceKind::kCpu)
    return {Layout::kRowMajor, Layout::kNhwc};
  return {Layout::kRowMajor, Layout::kNhwc, Layout::kNchw16c};
}

TEST(Elementwise, Add) {
  TestContext test;
  for (const DType dtype : {DType::kF32, DType::kBf16})
    for (const int64_t n : kSizes) {
      const GuardedTensor x = flat(n, 1, dtype), z = flat(n, 2, dtype);
      GuardedTensor y(dtype, {n});
      add(test.context, y, x, z);
      auto expected = x.get();
      const auto zs = z.get();
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += zs[i];
      // Rounded to fp32, then to the storage.
      EXPECT_TRUE(all_near(
          y.get(), expected,
          {0, dtype == DType::kF32 ? kEpsilonF32 : kEpsilonBf16 * 1.0001}));
      add(test.context, x, x, z);
      EXPECT_EQ(x.bytes(), y.bytes());
    }
}

// Slices begin anywhere, and not at the same place in each tensor.
TEST(Elementwise, AddAndCastOfASliceHaveTheBitsOfTheWhole) {
  TestContext test;
  constexpr int64_t kElems = 333;
  for (const DType dtype : {DType::kF32, DType::kBf16})
    for (const DType other : {DType::kF32, DType::kBf16}) {
      const GuardedTensor x = flat(kElems, 1, dtype),
                          z = flat(kElems, 2, dtype);
      const GuardedTensor sum(dtype, {kElems}), cast(other, {kElems});
      add(test.context, sum, x, z);
      reorder(test.context, cast, x);
      for (const auto& [to, from] :
           {std::pair<int64_t, int64_t>{3, 3}, {1, 9}, {0, 5}, {7, 0}}) {
        const GuardedTensor shifted(dtype, {kElems + 10});
        const GuardedTensor shifted_sum(dtype, {kElems + 10}),
            shifted_cast(other, {kElems + 10});
        reorder(test.context, slice(shifted, from, kElems), x);
        add(test.context, slice(shifted_sum, to, kElems),
            slice(shifted, from, kElems), z);
        reorder(test.context, slice(shifted_cast, to, kElems),
                slice(shifted, from, kElems));
        const auto part = [&](const GuardedTensor& t) {
          const std::vector<char> all = t.bytes();
          const int64_t one = bytes_of(t.tensor().dtype);
          return std::vector<char>(all.begin() + to * one,
                                   all.begin() + (to + kElems) * one);
        };
        EXPECT_EQ(part(shifted_sum), sum.bytes()) << to << " " << from;
        EXPECT_EQ(part(shifted_cast), cast.bytes()) << to << " " << from;
        EXPECT_TRUE(std::isnan(shifted_sum.get()[static_cast<size_t>(
            to + kElems)]));  // not written
      }
    }
}

// More than the threads of the largest grid take at once.
TEST(Elementwise, AddOfMillions) {
  TestContext test;
  constexpr int64_t kElems = (int64_t{2048} * 256 + 300) * 4 + 1;
  std::vector<float> xs(kElems), zs(kElems);
  for (int64_t i = 0; i < kElems; ++i) {
    xs[static_cast<size_t>(i)] = static_cast<float>(i);  // exact: < 2^24
    zs[static_cast<size_t>(i)] = static_cast<float>(i % 3);
  }
  const DeviceValues<float> x(xs), z(zs);
  const auto flat_tensor = [&](const DeviceValues<float>& values) {
    return make_tensor(values.data(), DType::kF32, {kElems});
  };
  add(test.context, flat_tensor(x), flat_tensor(x), flat_tensor(z));
  for (size_t i = 0; i < xs.size(); ++i) xs[i] += zs[i];
  EXPECT_EQ(x.get(test.context), xs);
}

TEST(Elementwise, ReorderKeepsValues) {
  TestContext test;
  const std::vector<Layout> layouts = image_layouts();
  for (const Shape& shape :
       {Shape{3, 16, 5, 7}, Shape{1, 48, 3, 1}, Shape{3, 3, 5, 4},
        Shape{2, 17, 9, 2}, Shape{5, 1, 33, 33}, Shape{4, 32, 33, 31},
        Shape{2, 3, 20, 19}, Shape{3, 130, 3, 3}, Shape{1, 1025, 1, 2},
        // More tiles of a transposition than blocks of a grid.
        Shape{2100, 5, 1, 3}})
    for (const Layout from : layouts)
      for (const Layout to : layouts)
        for (const auto& [from_dtype, to_dtype] :
             {std::pair{DType::kF32, DType::kF32},
              {DType::kF32, DType::kBf16},
              {DType::kBf16, DType::kF32},
              {DType::kBf16, DType::kBf16}}) {
          if (shape[1] % 16 != 0 &&
              (from == Layout::kNchw16c || to == Layout::kNchw16c))
            continue;
          const GuardedTensor source(from_dtype, shape, from,
                                     random_values(shape.elems(), 1));
          GuardedTensor target(to_dtype, shape, to),
              expected(to_dtype, shape, to);
          expected.set(source.get());
          reorder(test.context, target, source);
          EXPECT_EQ(target.bytes(), expected.bytes());
        }
}

TEST(Elementwise, PaddedChannelsAreZero) {
  TestContext test;
  for (const int64_t C : {1, 3, 8, 11}) {
    const int64_t padded = padded_channels(C), N = 3, H = 5, W = 7;
    const GuardedTensor x(DType::kF32, {N, C, H, W}, Layout::kNhwc,
                          random_values(N * C * H * W, 1));
    const GuardedTensor narrow(DType::kBf16, {N, C, H, W}, Layout::kNhwc),
        y(DType::kBf16, {N, padded, H, W}, Layout::kNhwc);
    reorder(test.context, narrow, x);
    pad_channels(test.context, y, x);
    const auto from = narrow.get(), to = y.get();
    for (int64_t i = 0; i < y.tensor().elems(); ++i) {
      const int64_t c = i / (H * W) % padded, n = i / (H * W * padded);
      const double expected =
          c < C ? from[(n * C + c) * H * W + i % (H * W)] : 0;
      ASSERT_EQ(to[i], expected) << i;
    }
  }
}

TEST(Elementwise, ReorderRoundsToNearestEven) {
  TestContext test;
  const double inf = std::numeric_limits<double>::infinity();
  // 1 + 2^-8 is half way between 1 and 1 + 2^-7: to even.
  const std::vector<double> values = {
      1 + 0x1.0p-8, 1 + 3 * 0x1.0p-8, 1 + 0x1.1p-8, -0.0, inf,
      -inf,         std::nan(""),     3.4e38};
  const std::vector<double> rounded = {
      1, 1 + 4 * 0x1.0p-8, 1 + 0x1.0p-7, -0.0, inf, -inf, std::nan(""), inf};
  for (const int64_t repeats : {1, 4}) {  // a tail, and whole vectors
    std::vector<double> source;
    for (int64_t i = 0; i < repeats; ++i)
      source.insert(source.end(), values.begin(), values.end());
    const auto n = static_cast<int64_t>(source.size());
    const GuardedTensor x(DType::kF32, {n}, source);
    GuardedTensor y(DType::kBf16, {n});
    reorder(test.context, y, x);
    const auto out = y.get();
    for (size_t i = 0; i < source.size(); ++i) {
      const double expected = rounded[i % rounded.size()];
      if (std::isnan(expected))
        EXPECT_TRUE(std::isnan(out[i]));
      else
        EXPECT_EQ(out[i], expected) << i;
    }
  }
}

TEST(Elementwise, AxpyAndScale) {
  TestContext test, one(1);
  for (const int64_t n : kSizes) {
    const GuardedTensor x = flat(n, 1), y = flat(n, 2), again = flat(n, 2);
    auto expected = y.get();
    const auto xs = x.get();
    for (size_t i = 0; i < expected.size(); ++i)
      expected[i] = (expected[i] - 0.375 * xs[i]) * 0.5;
    for (TestContext* c : {&test, &one}) {
      const auto range = (c == &test ? y : again).span();
      axpy(c->context, range, -0.375f, x);
      scale(c->context, range, 0.5f);
    }
    // Two roundings of values below 2.
    EXPECT_TRUE(all_near(y.get(), expected, {4 * kEpsilonF32, 0}));
    EXPECT_EQ(again.bytes(), y.bytes());
  }
}

TEST(Elementwise, AxpyOfASliceHasTheBitsOfTheWhole) {
  TestContext test;
  const GuardedTensor x = flat(1001, 1), whole = flat(1001, 2),
                      sliced = flat(1001, 2);
  axpy(test.context, whole, 0.1f, x);
  for (const auto& [begin, count] :
       {std::pair<size_t, size_t>{0, 7}, {7, 500}, {507, 494}})
    axpy(test.context, sliced.span().subspan(begin, count), 0.1f,
         x.span().subspan(begin, count));
  EXPECT_EQ(sliced.bytes(), whole.bytes());

  const GuardedTensor shifted = flat(1003, 3);
  reorder(test.context, slice(shifted, 2, 1001), x);
  const GuardedTensor from_shifted = flat(1001, 2);
  axpy(test.context, from_shifted, 0.1f, shifted.span().subspan(2, 1001));
  EXPECT_EQ(from_shifted.bytes(), whole.bytes());
}

// y of dropout with the draws of the contract, in double.
std::vector<double> dropped(const std::vector<double>& x,
                            int64_t N,
                            double p,
                            const DropoutKey& key,
                            uint64_t salt) {
  std::vector<double> y = x;
  const int64_t D = std::ssize(x) / N;
  for (int64_t n = 0; n < N; ++n) {
    Rng rng(key.seed ^ salt, Purpose::kDropout,
            key.first_sample + static_cast<uint64_t>(n));
    for (int64_t i = n * D; i < (n + 1) * D; ++i) {
      const bool keep = rng.next_u32() >= p * 0x1.0p32;
      double& value = y[static_cast<size_t>(i)];
      value = keep ? value / (1 - p) : 0;
    }
  }
  return y;
}

TEST(Elementwise, DropoutFollowsItsRandomNumbers) {
  TestContext test, one(1);
  const float p = 0.3f;
  // High words of both count too.
  const DropoutKey key{0x1234567800000077, 0xFFFFFFFFFF}, later{77, 105};
  const uint64_t salt = 0xABCDEF0123456789;
  const DeviceValues<DropoutKey> d_key(key), d_later(later);
  for (const DType dtype : {DType::kF32, DType::kBf16})
    for (const auto& [N, D] : {std::pair<int64_t, int64_t>{1, 1},
                               {17, 3},
                               {5, 8},
                               {7, 1036},
                               {3, 6667}}) {
      const Shape shape{N, D};
      const GuardedTensor x = random_tensor(shape, 1, dtype);
      GuardedTensor y(dtype, shape), again(dtype, shape);
      dropout(test.context, y, x, p, d_key, salt);
      const auto ys = y.get();
      EXPECT_TRUE(all_near(
          ys, dropped(x.get(), N, static_cast<double>(p), key, salt),
          {0, dtype == DType::kF32 ? 4 * kEpsilonF32 : 1.01 * kEpsilonBf16}));
      if (N * D > 20000) {
        // Binomial: 5 deviations of sqrt(n p (1 - p)) = 65.
        const auto zeros = std::count(ys.begin(), ys.end(), 0.0);
        EXPECT_NEAR(static_cast<double>(zeros), 0.3 * 20001, 325);
      }
      dropout(one.context, again, x, p, d_key, salt);
      EXPECT_EQ(again.bytes(), y.bytes());
      if (N > 1) {
        dropout(test.context, again, x, p, d_later, salt);
        EXPECT_NE(again.bytes(), y.bytes());
        dropout(test.context, again, x, p, d_key, salt + 1);
        EXPECT_NE(again.bytes(), y.bytes());
      }
      dropout(test.context, x, x, p, d_key, salt);  // in place
      EXPECT_EQ(x.bytes(), y.bytes());
    }
}

// A sample's memory may begin anywhere.
TEST(Elementwise, DropoutOfASampleDoesNotDependOnItsBatch) {
  TestContext test;
  constexpr int64_t kSamples = 6;
  for (const int64_t elems : {50, 64}) {
    const Shape shape{kSamples, elems};
    const GuardedTensor whole = random_tensor(shape, 1);
    const GuardedTensor parts(DType::kF32, shape, whole.get());
    const DeviceValues<DropoutKey> all(DropoutKey{9, 1000});
    dropout(test.context, whole, whole, 0.5f, all, 3);
    for (const auto& [first, count] :
         {std::pair<int64_t, int64_t>{0, 2}, {2, 3}, {5, 1}}) {
      const Tensor part = make_tensor(parts.tensor().f32() + first * elems,
                                      DType::kF32, {count, elems});
      const DeviceValues<DropoutKey> key(
          DropoutKey{9, 1000 + static_cast<uint64_t>(first)});
      dropout(test.context, part, part, 0.5f, key, 3);
      test.stream->synchronize();  // before the key goes
    }
    EXPECT_EQ(parts.bytes(), whole.bytes());
  }
}

// With more samples than the second dimension of a grid can have.
TEST(Elementwise, DropoutOfManySamples) {
  TestContext test;
  constexpr int64_t kSamples = 65535 + 20;
  const GuardedTensor x = random_tensor({kSamples, 1}, 1);
  const GuardedTensor y(DType::kF32, {kSamples, 1});
  const DropoutKey key{5, 6};
  const DeviceValues<DropoutKey> d_key(key);
  dropout(test.context, y, x, 0.25f, d_key, 0);
  EXPECT_TRUE(all_near(y.get(), dropped(x.get(), kSamples, 0.25, key, 0),
                       {0, 4 * kEpsilonF32}));
}

TEST(Elementwise, NoDropoutIsTheIdentity) {
  TestContext test;
  const GuardedTensor x = flat(100, 1);
  GuardedTensor y(DType::kF32, {100});
  const DeviceValues<DropoutKey> key(DropoutKey{1, 1});
  dropout(test.context, y, x, 0.0f, key, 0);
  EXPECT_EQ(y.bytes(), x.bytes());
}

// The key of each run, not of the recording.
TEST(Elementwise, RecordedDropoutDrawsAnew) {
  TestContext test;
  constexpr int64_t kSamples = 3, kElems = 100;
  const GuardedTensor x = random_tensor({kSamples, kElems}, 1);
  const GuardedTensor y(DType::kF32, {kSamples, kElems});
  const DeviceValues<DropoutKey> d_key(DropoutKey{});
  const auto step =
      recorded(test, [&] { dropout(test.context, y, x, 0.5f, d_key, 4); });
  for (const DropoutKey& key : {DropoutKey{1, 0}, {1, kSamples}, {2, 0}}) {
    store_dropout_key(test.context, d_key, key);
    step();
    EXPECT_TRUE(all_near(y.get(), dropped(x.get(), kSamples, 0.5, key, 4),
                         {0, 4 * kEpsilonF32}));
  }
}

TEST(Elementwise, DropoutKeyIsStored) {
  TestContext test;
  const DeviceValues<DropoutKey> key(DropoutKey{1, 2});
  store_dropout_key(test.context, key, {0xFEDCBA9876543210, 1ull << 40});
  const DropoutKey stored = key.get(test.context)[0];
  EXPECT_EQ(stored.seed, 0xFEDCBA9876543210);
  EXPECT_EQ(stored.first_sample, 1ull << 40);
}

}  // namespace
}  // namespace syncopate
