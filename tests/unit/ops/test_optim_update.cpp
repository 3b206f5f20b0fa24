#include "ops/optim_update.h"

#include <algorithm>
#include <cmath>

#include "ops/reduce.h"
#include "support/guarded_tensor.h"
#include "support/recorded.h"
#include "support/test_device.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

// Without momentum and with, Nesterov's and not.
std::vector<SgdParams> all_kinds() {
  std::vector<SgdParams> kinds;
  for (const float momentum : {0.0f, 0.9f})
    for (const bool nesterov : {false, true})
      kinds.push_back({.rate = 0.1f,
                       .momentum = momentum,
                       .weight_decay = 5e-4f,
                       .grad_scale = 0.25f,
                       .nesterov = nesterov});
  return kinds;
}

constexpr int64_t kSizes[] = {1, 15, 16, 17, 8193, 40007};
// Slices of 30011 elements.
constexpr std::pair<size_t, size_t> kSlices[] = {{0, 1},
                                                 {1, 9999},
                                                 {10000, 20011}};

// Values, momentum and gradient, the same for the same number of elements.
struct Sgd {
  int64_t n;
  GuardedTensor x = flat(n, 1), m = flat(n, 2), g = flat(n, 3);

  explicit Sgd(int64_t elems) : n(elems) {}
  void update(TestContext& test, const SgdParams& params) const {
    sgd_update(test.context, x, m, g, params);
  }
  GuardedTensor direction(TestContext& test, const SgdParams& params) const {
    const GuardedTensor d(DType::kF32, {n});
    sgd_direction(test.context, d, x, m, g, params);
    return d;
  }
  void expect_bits_of(const Sgd& other) const {
    EXPECT_EQ(x.bytes(), other.x.bytes());
    EXPECT_EQ(m.bytes(), other.m.bytes());
  }
};

TEST(OptimUpdate, SgdFollowsItsFormula) {
  for (const int64_t n : kSizes)
    for (const SgdParams& params : all_kinds()) {
      TestContext test;
      const Sgd sgd(n);
      auto xs = sgd.x.get(), ms = sgd.m.get();
      const auto gs = sgd.g.get();
      const double momentum = params.momentum;
      for (int step = 0; step < 2; ++step) {
        sgd.update(test, params);
        for (size_t i = 0; i < xs.size(); ++i) {
          const double gradient = 0.25 * gs[i] + double{5e-4f} * xs[i];
          ms[i] = momentum * ms[i] + gradient;
          const double move =
              params.nesterov ? gradient + momentum * ms[i] : ms[i];
          xs[i] -= double{0.1f} * move;
        }
      }
      // Two steps of a few roundings of values below 2.
      EXPECT_TRUE(all_near(sgd.x.get(), xs, {8 * kEpsilonF32, 0}));
      EXPECT_TRUE(all_near(sgd.m.get(), ms, {8 * kEpsilonF32, 0}));
    }
}

TEST(OptimUpdate, WithoutMomentumTheBufferMayBeEmpty) {
  TestContext test;
  const Sgd with(40), without(40);
  const SgdParams params{.rate = 0.1f, .momentum = 0, .weight_decay = 0};
  with.update(test, params);
  sgd_update(test.context, without.x, {}, without.g, params);
  EXPECT_EQ(with.x.get(), without.x.get());
  EXPECT_EQ(with.m.get(), with.g.get());  // for a factor that comes back later
}

// A server shard updates a slice: the bits must be those of the whole range.
TEST(OptimUpdate, SlicesAndThreadsHaveTheBitsOfTheWhole) {
  TestContext test, one(1);
  for (SgdParams params : all_kinds()) {
    params.grad_scale = 1.0f / 3;
    const Sgd whole(30011), sliced(30011);
    whole.update(test, params);
    for (const auto& [begin, count] : kSlices)
      sgd_update(one.context, sliced.x.span().subspan(begin, count),
                 sliced.m.span().subspan(begin, count),
                 sliced.g.span().subspan(begin, count), params);
    sliced.expect_bits_of(whole);
  }
}

// A received gradient may begin elsewhere than the slice that it is for.
TEST(OptimUpdate, RangesNeedNotBeAlignedAlike) {
  TestContext test;
  for (const SgdParams& params : all_kinds()) {
    const Sgd aligned(1000);
    aligned.update(test, params);
    for (const size_t shift : {1, 2, 3}) {
      const Sgd other(1000);
      const GuardedTensor elsewhere = flat(moved_by(shift, 0.0, other.g.get()));
      sgd_update(test.context, other.x, other.m,
                 elsewhere.span().subspan(shift), params);
      other.expect_bits_of(aligned);
    }
  }
}

TEST(OptimUpdate, ClipFactorScalesTheGradient) {
  TestContext test;
  const DeviceValues<float> half(0.5f);
  for (SgdParams params : all_kinds()) {
    const Sgd scaled(77), clipped(77);
    scaled.update(test, params);
    params.grad_scale = 0.5f;  // times a half is the same number
    params.clip_factor = half;
    clipped.update(test, params);
    clipped.expect_bits_of(scaled);
  }
}

// The direction is the factor of the rate; the momentum has the same bits.
TEST(OptimUpdate, DirectionIsTheStepBeforeItsRate) {
  for (const int64_t n : kSizes)
    for (const SgdParams& params : all_kinds()) {
      TestContext test;
      const Sgd start(n), moved(n), still(n);
      moved.update(test, params);
      const auto directions = still.direction(test, params).get();
      EXPECT_EQ(still.m.bytes(), moved.m.bytes());
      EXPECT_EQ(still.x.bytes(), start.x.bytes());
      EXPECT_EQ(still.g.bytes(), start.g.bytes());
      auto expected = start.x.get();
      for (size_t i = 0; i < expected.size(); ++i)
        expected[i] -= double{params.rate} * directions[i];
      // One rounding of values below 2.
      EXPECT_TRUE(all_near(moved.x.get(), expected, {2.01 * kEpsilonF32, 0}));
    }
}

TEST(OptimUpdate, DirectionMayTakeTheGradientsPlace) {
  for (const SgdParams& params : all_kinds()) {
    TestContext test, one(1);
    const Sgd apart(30011), in_place(30011);
    const GuardedTensor direction = apart.direction(test, params);
    for (const auto& [begin, count] : kSlices) {
      const auto g = in_place.g.span().subspan(begin, count);
      sgd_direction(one.context, g, in_place.x.span().subspan(begin, count),
                    in_place.m.span().subspan(begin, count), g, params);
    }
    EXPECT_EQ(in_place.g.bytes(), direction.bytes());
    in_place.expect_bits_of(apart);
  }
}

TEST(OptimUpdate, DirectionWithoutMomentumIsTheScaledGradient) {
  TestContext test;
  const DeviceValues<float> half(0.5f);
  const GuardedTensor x = flat(77, 1), g = flat(77, 2), direction = flat(77, 3);
  sgd_direction(test.context, direction, x, {}, g,
                {.rate = 9,
                 .momentum = 0,
                 .weight_decay = 0.25f,
                 .grad_scale = 0.5f,
                 .clip_factor = half});
  auto expected = g.get();
  const auto xs = x.get();
  for (size_t i = 0; i < expected.size(); ++i)
    expected[i] = 0.25 * expected[i] + 0.25 * xs[i];
  EXPECT_TRUE(all_near(direction.get(), expected, {kEpsilonF32, 0}));
}

// A step: the norm of this step's gradient, then the update.
TEST(OptimUpdate, RecordedClippingFollowsTheGradient) {
  TestContext test;
  const int64_t n = 20001;
  const DeviceValues<float> factor(0.0f);
  GuardedTensor x = flat(n, 1), g = flat(n, 2);
  const GuardedTensor y = flat(n, 1);
  const SgdParams params{
      .rate = 1, .momentum = 0, .weight_decay = 0, .clip_factor = factor};
  const auto step = recorded(test, [&] {
    clip_factor(test.context, factor, g, 1, 0.5);
    sgd_update(test.context, x, {}, g, params);
  });
  for (const double size : {3.0, 1e-4}) {
    x.set(y.get());
    auto gradient = random_values(n, 4);
    for (double& value : gradient) value *= size;
    g.set(gradient);
    step();
    double squares = 0;
    for (const double value : g.get()) squares += value * value;
    const double expected = std::min(1.0, 0.5 / (std::sqrt(squares) + 1e-6));
    auto xs = y.get();
    const auto gs = g.get();
    for (size_t i = 0; i < xs.size(); ++i) xs[i] -= expected * gs[i];
    // Two roundings of values below 2; the factor's own is relative to steps
    // far smaller.
    EXPECT_TRUE(all_near(x.get(), xs, {4 * kEpsilonF32, 0}));
  }
}

}  // namespace
}  // namespace syncopate
