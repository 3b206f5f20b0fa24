#include "ops/attention.h"

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "reference/attention.h"
#include "support/gradient_check.h"
#include "support/guarded_tensor.h"
#include "support/recorded.h"
#include "support/test_device.h"
#include "support/token_batch.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

constexpr DropoutKey kKey{0x1234567800000077, 0xFFFFFFFFFF};
constexpr uint64_t kSalt = 0xABCDEF0123456789;

// What the contract says an element of P is multiplied by: the draw's number
// is counted in 64 bits, the low 32 of its block in the counter's first word
// and the high ones in its second.
double drawn_mask(const DropoutKey& key,
                  float p,
                  int64_t n,
                  int64_t head,
                  int64_t query,
                  int64_t at) {
  if (p == 0) return 1;
  const uint64_t number =
      static_cast<uint64_t>((head * 65536 + query) * 65536 + at);
  const uint64_t block = number / 4;
  const uint64_t sample = key.first_sample + static_cast<uint64_t>(n);
  const uint64_t seed = key.seed ^ kSalt;
  const Philox4 words = philox4x32(
      {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
       static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32)},
      {static_cast<uint32_t>(seed),
       static_cast<uint32_t>(seed >> 32) ^
           (static_cast<uint32_t>(Purpose::kDropout) << 24)});
  return words[number % 4] < static_cast<double>(p) * 0x1.0p32
             ? 0
             : static_cast<double>(1.0f / (1.0f - p));
}

struct AttentionCase {
  std::vector<int64_t> lengths;
  int64_t heads, D;
  DType dtype;
  float p;
};

struct AttentionRun {
  AttentionCase c;
  TokenBatch batch{c.lengths};
  int64_t T = batch.tokens(), H = c.heads * c.D;
  GuardedTensor qkv{c.dtype, {T, 3 * H}}, out{c.dtype, {T, H}};
  GuardedTensor lse{DType::kF32, {T, c.heads}};
  GuardedTensor kept{DType::kI32, shape_of_kept()};
  GuardedTensor dout{c.dtype, {T, H}}, dqkv{c.dtype, {T, 3 * H}};
  DeviceValues<DropoutKey> key{kKey};
  TokenDropout dropout{c.p, key, kSalt};

  explicit AttentionRun(const AttentionCase& of) : c(of) {
    // Scores of a deviation near 1.3: neither flat nor one-hot.
    auto values = random_values(T * 3 * H, 21);
    for (double& value : values) value *= 2;
    qkv.set(values);
    dout.set(random_values(T * H, 22));
  }
  AttentionForwardArgs forward_args() {
    return {.out = out,
            .lse = lse,
            .qkv = qkv,
            .sequences = batch,
            .heads = c.heads,
            .dropout = dropout,
            .kept = kept};
  }
  AttentionBackwardArgs backward_args() {
    return {.dqkv = dqkv,
            .dout = dout,
            .qkv = qkv,
            .out = out,
            .lse = lse,
            .sequences = batch,
            .heads = c.heads,
            .dropout = dropout,
            .kept = kept};
  }
  bool keeps() const {
    return c.p > 0 && keeps_draws(test_device().kind(), c.dtype, c.D);
  }
  Shape shape_of_kept() const {
    return keeps() ? kept_shape(std::ssize(c.lengths), c.heads,
                                Sequences(batch).max_length)
                   : Shape{0};
  }
  void forward(Context& context) { attention_forward(context, forward_args()); }
  void backward(Context& context) {
    attention_backward(context, backward_args());
  }
  reference::Attention formula() const {
    return {c.lengths, c.heads, c.D,
            [p = c.p](int64_t n, int64_t head, int64_t query, int64_t at) {
              return drawn_mask(kKey, p, n, head, query, at);
            }};
  }
  // Where a GPU has tensor cores take products, shares and gradients of scores
  // are rounded as well.
  double factors() const {
    const bool is_rounded = c.dtype == DType::kBf16 && c.D % 16 == 0 &&
                            test_device().kind() != DeviceKind::kCpu;
    return is_rounded ? kEpsilonBf16 : 0;
  }
  double longest() const {
    return static_cast<double>(Sequences(batch).max_length);
  }
};

struct AttentionShape {
  const char* name;
  std::vector<int64_t> lengths;
  int64_t heads, D;
};

// |actual - expected| <= relative * |expected|, of whole vectors.
testing::AssertionResult is_near_as_a_whole(const std::vector<double>& actual,
                                            const std::vector<double>& expected,
                                            double relative) {
  double error = 0, size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  if (std::sqrt(error) <= relative * std::sqrt(size))
    return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << "off by " << std::sqrt(error) << " of " << std::sqrt(size);
}

class AttentionTest : public testing::TestWithParam<AttentionShape> {
 protected:
  TestContext test;
  // body(case) with each element type, with and without dropout.
  template <typename Body>
  void for_cases(const Body& body) {
    const AttentionShape& s = GetParam();
    for (const DType dtype : {DType::kF32, DType::kBf16})
      for (const float p : {0.0f, 0.3f}) {
        SCOPED_TRACE(fmt::format("{} p {}", name_of(dtype), p));
        body(AttentionCase{s.lengths, s.heads, s.D, dtype, p});
      }
  }
};

TEST_P(AttentionTest, FollowsTheFormula) {
  for_cases([&](const AttentionCase& c) {
    AttentionRun run(c);
    run.forward(test.context);
    const auto attention = run.formula();
    const auto expected =
        reference::attention_forward(attention, run.qkv.get());
    // A score is a sum of D products of up to 4; where it is off by e, so are
    // the logarithm and, relatively, each share.
    const double score_error =
        (8 + 4 * std::sqrt(static_cast<double>(c.D))) * kEpsilonF32;
    EXPECT_TRUE(all_near(run.lse.get(), expected.lse, {4 * score_error, 0}));
    // Shares add up to 1, kept ones to 1 / 0.7; values are up to 2.
    const double share_error = score_error +
                               2 * std::sqrt(run.longest()) * kEpsilonF32 +
                               run.factors();
    EXPECT_TRUE(all_near(run.out.get(), expected.out,
                         {4 * share_error, 2 * epsilon_of(c.dtype)}));

    run.backward(test.context);
    const auto dqkv = reference::attention_backward(
        attention, run.dout.get(), run.qkv.get(), run.out.get());
    // dP and delta are sums of D products of up to 2 / 0.7; dK and dV of as
    // many terms as there are queries. Shares are small where sequences are
    // long, so the largest gradient stands for the terms that cancel.
    const double largest = std::max(1.0, largest_magnitude(dqkv));
    EXPECT_TRUE(
        all_near(run.dqkv.get(), dqkv,
                 {16 * share_error * largest, 2 * epsilon_of(c.dtype)}));
    // Roundings of many elements and terms do not all go the same way.
    if (c.dtype == DType::kBf16) {
      EXPECT_TRUE(
          is_near_as_a_whole(run.out.get(), expected.out, kEpsilonBf16));
      EXPECT_TRUE(is_near_as_a_whole(run.dqkv.get(), dqkv, kEpsilonBf16));
    }
  });
}

// Where forward keeps its draws: 0 is no seed that forward drew from.
TEST_P(AttentionTest, BackwardDrawsNothingOnTensorCores) {
  for_cases([&](const AttentionCase& c) {
    AttentionRun run(c);
    if (!run.keeps()) return;
    run.forward(test.context);
    run.backward(test.context);
    const auto expected = run.dqkv.bytes();
    store_dropout_key(test.context, run.key, {});
    run.backward(test.context);
    EXPECT_EQ(run.dqkv.bytes(), expected);
  });
}

// Nor, on a GPU, on the order in which blocks happen to run.
TEST_P(AttentionTest, BitsDoNotDependOnThreads) {
  for_cases([&](const AttentionCase& c) {
    AttentionRun run(c);
    run.forward(test.context);
    run.backward(test.context);
    for (const int threads : {1, 3}) {
      TestContext others(threads);
      AttentionRun again(c);
      again.forward(others.context);
      again.backward(others.context);
      EXPECT_EQ(again.out.bytes(), run.out.bytes());
      EXPECT_EQ(again.lse.bytes(), run.lse.bytes());
      EXPECT_EQ(again.dqkv.bytes(), run.dqkv.bytes());
    }
  });
}

// The last two have several blocks of queries and keys; five heads are more
// than the low word of a dropout draw counts.
INSTANTIATE_TEST_SUITE_P(
    Shapes,
    AttentionTest,
    testing::Values(AttentionShape{"one", {1}, 1, 1},
                    AttentionShape{"odd", {3, 1, 7}, 2, 3},
                    AttentionShape{"with_an_empty_one", {2, 0, 5}, 1, 16},
                    AttentionShape{"narrow", {33, 16, 17}, 1, 20},
                    AttentionShape{"five_heads", {5, 18}, 5, 17},
                    AttentionShape{"d32", {31, 49, 64}, 2, 32},
                    AttentionShape{"d48", {100, 64, 7}, 3, 48},
                    AttentionShape{"d64", {65, 2, 130}, 2, 64},
                    AttentionShape{"d112", {70, 33}, 2, 112},
                    AttentionShape{"d128", {80, 9}, 1, 128}),
    [](const auto& info) { return info.param.name; });

TEST(Attention, ASequenceDoesNotDependOnItsBatch) {
  TestContext test;
  AttentionRun whole({{5, 40, 3}, 2, 8, DType::kF32, 0.4f});
  whole.forward(test.context);
  whole.backward(test.context);
  const auto rows = [](const GuardedTensor& of, size_t first, size_t count) {
    const auto values = of.get();
    const size_t width =
        values.size() / static_cast<size_t>(of.tensor().shape[0]);
    return std::vector<double>(
        values.begin() + static_cast<std::ptrdiff_t>(first * width),
        values.begin() + static_cast<std::ptrdiff_t>((first + count) * width));
  };
  AttentionRun part({{40}, 2, 8, DType::kF32, 0.4f});
  store_dropout_key(test.context, part.key, {kKey.seed, kKey.first_sample + 1});
  part.qkv.set(rows(whole.qkv, 5, 40));
  part.dout.set(rows(whole.dout, 5, 40));
  part.forward(test.context);
  part.backward(test.context);
  EXPECT_EQ(part.out.get(), rows(whole.out, 5, 40));
  EXPECT_EQ(part.lse.get(), rows(whole.lse, 5, 40));
  EXPECT_EQ(part.dqkv.get(), rows(whole.dqkv, 5, 40));
}

TEST(Attention, GradientIsThatOfForward) {
  TestContext test;
  for (const float p : {0.0f, 0.3f}) {
    AttentionRun run({{6, 19}, 2, 8, DType::kF32, p});
    run.forward(test.context);
    run.backward(test.context);
    const auto gradient = run.dqkv.get(), dout = run.dout.get();
    const auto start = run.qkv.get();
    std::vector<float> values(start.begin(), start.end());
    const std::vector<float> dqkv(gradient.begin(), gradient.end());
    const auto objective = [&] {
      run.qkv.set({values.begin(), values.end()});
      run.forward(test.context);
      const auto out = run.out.get();
      double sum = 0;
      for (size_t i = 0; i < out.size(); ++i) sum += out[i] * dout[i];
      return sum;
    };
    EXPECT_LT(directional_error(values, dqkv, objective, 2), 1e-3);
    EXPECT_LT(elementwise_error(values, dqkv, objective, 16), 1e-3);
  }
}

TEST(Attention, RecordedDrawsAnew) {
  TestContext test;
  AttentionRun run({{9, 4}, 2, 4, DType::kF32, 0.5f});
  const auto step = recorded(test, [&] {
    run.forward(test.context);
    run.backward(test.context);
  });
  for (const DropoutKey& key : {DropoutKey{1, 0}, {1, 2}, {2, 0}}) {
    store_dropout_key(test.context, run.key, key);
    step();
    const auto expected = reference::attention_forward(
        {run.c.lengths, 2, 4,
         [&](int64_t n, int64_t head, int64_t query, int64_t at) {
           return drawn_mask(key, 0.5f, n, head, query, at);
         }},
        run.qkv.get());
    EXPECT_TRUE(all_near(run.out.get(), expected.out, {1e-5, 0}));
  }
}

// A key that is as far above the others as fp32 reaches takes all.
TEST(Attention, LargeScoresDoNotOverflow) {
  TestContext test;
  AttentionRun run({{70}, 1, 1, DType::kF32, 0.0f});
  auto values = std::vector<double>(70 * 3, 1.0);
  for (size_t token = 0; token < 70; ++token) {
    values[token * 3] = 1e10;
    values[token * 3 + 1] = token == 68 ? 1e20 : -1e20;
    values[token * 3 + 2] = static_cast<double>(token);
  }
  run.qkv.set(values);
  run.forward(test.context);
  run.backward(test.context);
  for (const double value : run.out.get()) EXPECT_EQ(value, 68);
  for (const double value : run.lse.get()) EXPECT_NEAR(value, 1e30, 1e24);
  // All of dout goes to the value that was taken.
  double sum = 0;
  for (const double value : run.dout.get()) sum += value;
  const auto dqkv = run.dqkv.get();
  EXPECT_NEAR(dqkv[68 * 3 + 2], sum, 70 * kEpsilonF32);
  EXPECT_EQ(dqkv[67 * 3 + 2], 0);
}

// Shares do not depend on where scores lie; exp(0) is above all of theirs.
TEST(Attention, ScoresFarBelowZero) {
  TestContext test;
  AttentionRun run({{70}, 1, 4, DType::kF32, 0.0f});
  auto values = run.qkv.get();
  for (size_t token = 0; token < 70; ++token) {
    values[token * 12] = 40;       // of the query
    values[token * 12 + 4] = -10;  // of the key: scores near -200
  }
  run.qkv.set(values);
  run.forward(test.context);
  run.backward(test.context);
  for (const double lse : run.lse.get()) EXPECT_LT(lse, -150);
  const auto expected = reference::attention_backward(
      run.formula(), run.dout.get(), run.qkv.get(), run.out.get());
  // Scores of 200 are off by their roundings, and shares by as much,
  // relatively.
  EXPECT_TRUE(all_near(run.dqkv.get(), expected,
                       {1000 * kEpsilonF32 * largest_magnitude(expected), 0}));
}

// Only in its own sequence and head.
TEST(Attention, NanGoesThrough) {
  TestContext test;
  AttentionRun run({{20, 3}, 2, 4, DType::kF32, 0.0f});
  auto values = run.qkv.get();
  values[7 * 24 + 8] = std::nan("");  // key 7, head 0, of sequence 0
  run.qkv.set(values);
  run.forward(test.context);
  const auto out = run.out.get();
  for (size_t i = 0; i < out.size(); ++i)
    EXPECT_EQ(std::isnan(out[i]), i < 20 * 8 && i % 8 < 4) << i;
}

TEST(Attention, UnlikeShapesAreRefused) {
  TestContext test;
  AttentionRun run({{4}, 2, 4, DType::kF32, 0.0f});
  const GuardedTensor narrow(DType::kF32, {4, 6});
  AttentionForwardArgs forward = run.forward_args();
  forward.heads = 3;
  EXPECT_THROW(attention_forward(test.context, forward), Error);
  forward = run.forward_args();
  forward.out = narrow;
  EXPECT_THROW(attention_forward(test.context, forward), Error);
  AttentionBackwardArgs backward = run.backward_args();
  backward.dqkv = run.qkv;
  EXPECT_THROW(attention_backward(test.context, backward), Error);
}

}  // namespace
}  // namespace syncopate
