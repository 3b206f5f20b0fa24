#include "ops/layernorm.h"

#include <cmath>

#include "reference/layernorm.h"
#include "reference/sequences.h"
#include "support/gradient_check.h"
#include "support/guarded_tensor.h"
#include "support/recorded.h"
#include "support/token_batch.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

constexpr float kEps = 1e-12f;  // BERT's
constexpr DropoutKey kKey{0x123456789, 41};
constexpr uint64_t kSalt = 77;

struct Case {
  std::vector<int64_t> lengths;
  int64_t H;
  DType dtype;
  bool has_residual;
  float p;
};

struct LayernormRun {
  Case c;
  TokenBatch batch{c.lengths};
  DeviceValues<DropoutKey> key{kKey};
  int64_t T = batch.tokens();
  GuardedTensor x = matrix(1), residual = matrix(2), dy = matrix(3);
  GuardedTensor gamma = random_tensor({c.H}, 4), beta = random_tensor({c.H}, 5),
                dgamma = random_tensor({c.H}, 6),
                dbeta = random_tensor({c.H}, 7);
  GuardedTensor y{c.dtype, {T, c.H}}, z{c.dtype, {T, c.H}};
  GuardedTensor dx{c.dtype, {T, c.H}}, dresidual{c.dtype, {T, c.H}};
  GuardedTensor mean{DType::kF32, {T}}, rstd{DType::kF32, {T}};

  explicit LayernormRun(const Case& of) : c(of) {
    // A mean that is large beside the deviation.
    auto values = x.get();
    for (double& value : values) value += 3;
    x.set(values);
  }
  GuardedTensor matrix(uint64_t seed) const {
    return random_tensor({T, c.H}, seed, c.dtype);
  }
  TokenDropout dropout() const {
    return {c.p, c.p == 0 ? nullptr : key.data(), kSalt};
  }
  ConstTensor residual_or_none() const {
    return c.has_residual ? ConstTensor(residual) : ConstTensor();
  }
  Tensor dresidual_or_none() const {
    return c.has_residual ? dresidual.tensor() : Tensor();
  }
  void forward(Context& context) { forward(context, y, z, x); }
  void forward(Context& context, Tensor to, Tensor z_to, ConstTensor from) {
    layernorm_forward(context, {.y = to,
                                .z = z_to,
                                .mean = mean,
                                .rstd = rstd,
                                .x = from,
                                .residual = residual_or_none(),
                                .gamma = gamma,
                                .beta = beta,
                                .epsilon = kEps,
                                .sequences = batch,
                                .dropout = dropout()});
  }
  void backward(Context& context) { backward(context, dx, dy); }
  void backward(Context& context,
                Tensor to,
                ConstTensor from,
                Tensor sums = {}) {
    layernorm_backward(context, {.dx = to,
                                 .dresidual = dresidual_or_none(),
                                 .dgamma = dgamma,
                                 .dbeta = dbeta,
                                 .dbias = sums,
                                 .dy = from,
                                 .z = z,
                                 .mean = mean,
                                 .rstd = rstd,
                                 .gamma = gamma,
                                 .sequences = batch,
                                 .dropout = dropout()});
  }
  std::vector<double> dropped(const std::vector<double>& values) const {
    return reference::token_dropout(
        values, c.lengths, c.H,
        {static_cast<double>(c.p), kKey.seed ^ kSalt, kKey.first_sample});
  }
};

// body(case): widths around vectors and packs, of several pieces of draws, of
// more packs than a block has threads; batches of several chunks of rows and,
// in the last case, of more rows than blocks.
template <typename Body>
void for_cases(const Body& body) {
  const std::vector<int64_t> some = {5, 1, 13};
  const std::vector<int64_t> many = std::vector<int64_t>(40, 9);
  for (const DType dtype : {DType::kF32, DType::kBf16})
    for (const float p : {0.0f, 0.25f})
      for (const bool has_residual : {false, true})
        for (const auto& [lengths, H] : {std::pair{some, int64_t{2}},
                                         {some, 3},
                                         {some, 16},
                                         {some, 37},
                                         {some, 768},
                                         {some, 1024},
                                         {{3}, 3076},
                                         {many, 37}}) {
          // Both, or none, at every size.
          if (H != 37 && (p > 0) != has_residual) continue;
          SCOPED_TRACE(fmt::format("{} H {} rows {} p {} residual {}",
                                   name_of(dtype), H, lengths.size(), p,
                                   has_residual));
          body(Case{lengths, H, dtype, has_residual, p});
        }
  SCOPED_TRACE("1,080 rows");
  body(Case{std::vector<int64_t>(120, 9), 37, DType::kF32, true, 0.25f});
}

TEST(Layernorm, ForwardFollowsTheFormula) {
  for_cases([](const Case& c) {
    TestContext test;
    LayernormRun run(c);
    run.forward(test.context);
    auto z = run.dropped(run.x.get());
    const auto residual = run.residual.get();
    for (size_t i = 0; i < z.size() && c.has_residual; ++i) z[i] += residual[i];
    EXPECT_TRUE(all_near(run.z.get(), z,
                         {16 * kEpsilonF32, epsilon_of(c.dtype) * 1.001}));
    // All results derive from z as stored.
    const auto expected =
        reference::layernorm_forward(run.T, c.H, run.z.get(), run.gamma.get(),
                                     run.beta.get(), static_cast<double>(kEps));
    // A mean of 4 with an error of some units, divided by the deviation.
    const double rstd = largest_magnitude(expected.rstd);
    const double z_error = 4 * 8 * kEpsilonF32;
    EXPECT_TRUE(all_near(run.mean.get(), expected.mean, {z_error, 0}));
    EXPECT_TRUE(
        all_near(run.rstd.get(), expected.rstd, {0, z_error * rstd + 1e-6}));
    EXPECT_TRUE(
        all_near(run.y.get(), expected.y,
                 {z_error * rstd + 4 * kEpsilonF32, 2 * epsilon_of(c.dtype)}));
  });
}

TEST(Layernorm, BackwardFollowsTheFormula) {
  for_cases([](const Case& c) {
    TestContext test;
    LayernormRun run(c);
    run.forward(test.context);
    const auto expected = reference::layernorm_backward(
        run.T, c.H, run.dy.get(), run.z.get(), run.gamma.get(),
        static_cast<double>(kEps));
    auto dgamma = run.dgamma.get(), dbeta = run.dbeta.get();
    for (size_t h = 0; h < dgamma.size(); ++h) {
      dgamma[h] += expected.dgamma[h];
      dbeta[h] += expected.dbeta[h];
    }
    run.backward(test.context);
    const double rstd = largest_magnitude(run.rstd.get());
    // Normalised values, at most sqrt(H) and off by what forward allows.
    const double error =
        (1 + rstd) * 64 * kEpsilonF32 * std::sqrt(static_cast<double>(c.H));
    const Tolerance tolerance{rstd * error, 2 * epsilon_of(c.dtype)};
    EXPECT_TRUE(all_near(run.dx.get(), run.dropped(expected.dz), tolerance));
    if (c.has_residual) {
      EXPECT_TRUE(all_near(run.dresidual.get(), expected.dz, tolerance));
    }
    const double rows = std::sqrt(static_cast<double>(run.T));
    EXPECT_TRUE(all_near(run.dgamma.get(), dgamma, {rows * error, 1e-6}));
    EXPECT_TRUE(all_near(run.dbeta.get(), dbeta, {rows * 1e-6, 1e-6}));
  });
}

TEST(Layernorm, BackwardSumsWhatItStores) {
  for_cases([](const Case& c) {
    TestContext test, one(1);
    LayernormRun run(c), other(c), again(c);
    const GuardedTensor dbias = random_tensor({c.H}, 8),
                        dbias_again = random_tensor({c.H}, 8);
    auto expected = dbias.get();
    run.forward(test.context);
    run.backward(test.context);
    other.forward(test.context);
    other.backward(test.context, other.dx, other.dy, dbias);
    EXPECT_EQ(other.dx.bytes(), run.dx.bytes());
    EXPECT_EQ(other.dgamma.bytes(), run.dgamma.bytes());
    EXPECT_EQ(other.dbeta.bytes(), run.dbeta.bytes());
    const auto stored = run.dx.get();
    for (size_t i = 0; i < stored.size(); ++i)
      expected[i % expected.size()] += stored[i];
    const double largest =
        largest_magnitude(stored) * std::sqrt(static_cast<double>(run.T));
    EXPECT_TRUE(all_near(dbias.get(), expected,
                         {4 * kEpsilonF32 * largest, 2 * kEpsilonF32}));
    again.forward(one.context);
    again.backward(one.context, again.dy, again.dy, dbias_again);
    EXPECT_EQ(dbias_again.bytes(), dbias.bytes());
  });
}

TEST(Layernorm, ReferenceGradientIsThatOfTheFunction) {
  constexpr int64_t kRows = 3, kH = 7;
  auto z = random_values(kRows * kH, 1), gamma = random_values(kH, 2),
       beta = random_values(kH, 3);
  const auto dy = random_values(kRows * kH, 4);
  const auto objective = [&] {
    const auto y =
        reference::layernorm_forward(kRows, kH, z, gamma, beta, 1e-12).y;
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
    return sum;
  };
  const auto gradients =
      reference::layernorm_backward(kRows, kH, dy, z, gamma, 1e-12);
  expect_derivative(z, gradients.dz, objective, 1e-6, 1e-6);
  expect_derivative(gamma, gradients.dgamma, objective, 1e-6, 1e-6);
  expect_derivative(beta, gradients.dbeta, objective, 1e-6, 1e-6);
}

// Where z is not kept, with x as z, in place of dy, with one thread.
TEST(Layernorm, AliasesAndThreadsDoNotMatter) {
  for_cases([](const Case& c) {
    TestContext test, one(1);
    LayernormRun run(c), other(c);
    run.forward(test.context);
    run.backward(test.context);
    other.forward(one.context, other.y, Tensor(), other.x);
    EXPECT_EQ(other.y.bytes(), run.y.bytes());
    other.forward(one.context, other.y, other.x, other.x);
    EXPECT_EQ(other.y.bytes(), run.y.bytes());
    EXPECT_EQ(other.x.bytes(), run.z.bytes());
    EXPECT_EQ(other.mean.bytes(), run.mean.bytes());
    EXPECT_EQ(other.rstd.bytes(), run.rstd.bytes());
    other.z.set(run.z.get());
    other.backward(one.context, other.dy, other.dy);
    EXPECT_EQ(other.dy.bytes(), run.dx.bytes());
    EXPECT_EQ(other.dgamma.bytes(), run.dgamma.bytes());
    EXPECT_EQ(other.dbeta.bytes(), run.dbeta.bytes());
    if (c.has_residual) {
      EXPECT_EQ(other.dresidual.bytes(), run.dresidual.bytes());
    }
  });
}

TEST(Layernorm, RecordedDrawsAnew) {
  TestContext test;
  const Case c{{5, 4}, 40, DType::kF32, true, 0.5f};
  LayernormRun run(c), other(c);
  const auto step = recorded(test, [&] {
    run.forward(test.context);
    run.backward(test.context);
  });
  for (const uint64_t first : {3, 5}) {
    for (LayernormRun* r : {&run, &other}) {
      r->dgamma.set(std::vector<double>(40));
      r->dbeta.set(std::vector<double>(40));
      store_dropout_key(test.context, r->key, {9, first});
    }
    step();
    other.forward(test.context);
    other.backward(test.context);
    EXPECT_EQ(run.y.bytes(), other.y.bytes());
    EXPECT_EQ(run.dx.bytes(), other.dx.bytes());
    EXPECT_EQ(run.dgamma.bytes(), other.dgamma.bytes());
  }
}

}  // namespace
}  // namespace syncopate
