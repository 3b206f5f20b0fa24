#include "ops/elementwise.h"

#include <cmath>

#include "base/rng.h"
#include "cpu_fixture.h"
#include "support/guarded_tensor.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

// Around vectors of 16, pieces of 8192 and what is worth a team.
constexpr int64_t kSizes[] = {0, 1, 15, 16, 17, 8191, 8193, 50001};

GuardedTensor flat(int64_t elems, uint64_t seed, DType dtype = DType::kF32) {
  return {dtype, Shape{elems}, Layout::kRowMajor, random_values(elems, seed)};
}
std::span<float> span_of(const GuardedTensor& t) {
  return {t.tensor().f32(), static_cast<size_t>(t.tensor().elems())};
}

TEST(Elementwise, Add) {
  Cpu cpu;
  for (const DType dtype : {DType::kF32, DType::kBf16})
    for (const int64_t n : kSizes) {
      const GuardedTensor x = flat(n, 1, dtype), z = flat(n, 2, dtype);
      GuardedTensor y(dtype, {n});
      add(cpu.context, y, x, z);
      auto expected = x.get();
      const auto zs = z.get();
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += zs[i];
      // Rounded to fp32, then to the storage.
      EXPECT_TRUE(all_near(
          y.get(), expected,
          {0, dtype == DType::kF32 ? kEpsilonF32 : kEpsilonBf16 * 1.0001}));
      EXPECT_TRUE(y.guards_are_intact());
      add(cpu.context, x, x, z);
      EXPECT_EQ(x.bytes(), y.bytes());
    }
}

TEST(Elementwise, ReorderKeepsValues) {
  Cpu cpu;
  const Layout layouts[] = {Layout::kRowMajor, Layout::kNhwc, Layout::kNchw16c};
  for (const Shape& shape :
       {Shape{3, 16, 5, 7}, Shape{1, 48, 3, 1}, Shape{3, 3, 5, 4},
        Shape{2, 17, 9, 2}, Shape{5, 1, 33, 33}, Shape{4, 32, 33, 31}})
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
          reorder(cpu.context, target, source);
          EXPECT_EQ(target.bytes(), expected.bytes());
          EXPECT_TRUE(target.guards_are_intact());
        }
}

TEST(Elementwise, ReorderRoundsToNearestEven) {
  Cpu cpu;
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
    const GuardedTensor x(DType::kF32, {n}, Layout::kRowMajor, source);
    GuardedTensor y(DType::kBf16, {n});
    reorder(cpu.context, y, x);
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
  Cpu cpu, one(1);
  for (const int64_t n : kSizes) {
    const GuardedTensor x = flat(n, 1), y = flat(n, 2), again = flat(n, 2);
    auto expected = y.get();
    const auto xs = x.get();
    for (size_t i = 0; i < expected.size(); ++i)
      expected[i] = (expected[i] - 0.375 * xs[i]) * 0.5;
    for (Cpu* c : {&cpu, &one}) {
      const auto range = span_of(c == &cpu ? y : again);
      axpy(c->context, range, -0.375f, span_of(x));
      scale(c->context, range, 0.5f);
    }
    // Two roundings of values below 2.
    EXPECT_TRUE(all_near(y.get(), expected, {4 * kEpsilonF32, 0}));
    EXPECT_TRUE(y.guards_are_intact());
    EXPECT_EQ(again.bytes(), y.bytes());
  }
}

TEST(Elementwise, AxpyOfASliceHasTheBitsOfTheWhole) {
  Cpu cpu;
  const GuardedTensor x = flat(1001, 1), whole = flat(1001, 2),
                      sliced = flat(1001, 2);
  axpy(cpu.context, span_of(whole), 0.1f, span_of(x));
  for (const auto& [begin, count] :
       {std::pair<size_t, size_t>{0, 7}, {7, 500}, {507, 494}})
    axpy(cpu.context, span_of(sliced).subspan(begin, count), 0.1f,
         span_of(x).subspan(begin, count));
  EXPECT_EQ(sliced.bytes(), whole.bytes());
}

TEST(Elementwise, DropoutFollowsItsRandomNumbers) {
  Cpu cpu, one(1);
  const float p = 0.3f;
  const DropoutKey key{77, 5};
  for (const DType dtype : {DType::kF32, DType::kBf16})
    for (const auto& [N, D] :
         {std::pair<int64_t, int64_t>{1, 1}, {17, 3}, {3, 6667}}) {
      const Shape shape{N, D};
      const GuardedTensor x(dtype, shape, Layout::kRowMajor,
                            random_values(N * D, 1));
      GuardedTensor y(dtype, shape), again(dtype, shape);
      dropout(cpu.context, y, x, p, key);
      const auto xs = x.get(), ys = y.get();
      int64_t dropped = 0;
      for (int64_t n = 0; n < N; ++n) {
        Rng rng(key.seed, Purpose::kDropout, key.first_sample + n);
        for (int64_t i = n * D; i < (n + 1) * D; ++i) {
          const bool keep = rng.next_u32() >= static_cast<double>(p) * 0x1.0p32;
          dropped += !keep;
          const double expected =
              keep ? xs[i] / (1 - static_cast<double>(p)) : 0;
          ASSERT_TRUE(
              is_within(ys[i], expected,
                        {0, dtype == DType::kF32 ? 4 * kEpsilonF32
                                                 : 1.01 * kEpsilonBf16}));
        }
      }
      EXPECT_TRUE(y.guards_are_intact());
      if (N * D > 20000) {
        // Binomial: 5 deviations of sqrt(n p (1 - p)) = 65.
        EXPECT_NEAR(static_cast<double>(dropped), 0.3 * 20001, 325);
      }
      dropout(one.context, again, x, p, key);
      EXPECT_EQ(again.bytes(), y.bytes());
      dropout(cpu.context, again, x, p, {77, 5 + 100});
      if (N > 1) {
        EXPECT_NE(again.bytes(), y.bytes());
      }
      dropout(cpu.context, x, x, p, key);  // in place
      EXPECT_EQ(x.bytes(), y.bytes());
    }
}

TEST(Elementwise, DropoutOfASampleDoesNotDependOnItsBatch) {
  Cpu cpu;
  constexpr int64_t kSamples = 6, kElems = 50;
  const GuardedTensor whole(DType::kF32, {kSamples, kElems}, Layout::kRowMajor,
                            random_values(kSamples * kElems, 1));
  const GuardedTensor parts(DType::kF32, {kSamples, kElems}, Layout::kRowMajor,
                            whole.get());
  dropout(cpu.context, whole, whole, 0.5f, {9, 1000});
  for (const auto& [first, count] :
       {std::pair<int64_t, int64_t>{0, 2}, {2, 3}, {5, 1}}) {
    const Tensor part = make_tensor(parts.tensor().f32() + first * kElems,
                                    DType::kF32, {count, kElems});
    dropout(cpu.context, part, part, 0.5f,
            {9, 1000 + static_cast<uint64_t>(first)});
  }
  EXPECT_EQ(parts.bytes(), whole.bytes());
}

TEST(Elementwise, NoDropoutIsTheIdentity) {
  Cpu cpu;
  const GuardedTensor x = flat(100, 1);
  GuardedTensor y(DType::kF32, {100});
  dropout(cpu.context, y, x, 0.0f, {1, 1});
  EXPECT_EQ(y.bytes(), x.bytes());
}

}  // namespace
}  // namespace syncopate
