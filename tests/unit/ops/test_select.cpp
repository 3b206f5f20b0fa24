#include "ops/select.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "base/rng.h"
#include "reference/selection.h"
#include "support/guarded_tensor.h"
#include "support/recorded.h"
#include "support/test_device.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

constexpr double kRatios[] = {0, 0.5, 0.9, 0.99, 0.999};
constexpr uint32_t kUnwritten = 0xABABABAB;

// Around warps, chunks of 4096, and what the CPU takes a sample of.
std::vector<int64_t> tensor_sizes() {
  return {1, 31, 32, 33, 2, 4095, 4096, 4097, 64, 9001, 40000, 10};
}

std::vector<int64_t> begins_of(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> begins{0};
  for (const int64_t elems : sizes) begins.push_back(begins.back() + elems);
  return begins;
}

std::vector<float> normal_values(int64_t count, uint64_t seed) {
  Rng rng(seed, Purpose::kTest);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

uint64_t magnitude(float value) {
  return std::bit_cast<uint32_t>(value) & 0x7FFFFFFF;
}

// The result of encoding, checked for writes outside of it.
struct Message {
  std::vector<uint32_t> places, value_bits;
  bool operator==(const Message&) const = default;
};

template <typename Encode>
Message encoded(TestContext& test, int64_t kept, const Encode& encode) {
  constexpr size_t kGuard = 8;
  const size_t all = static_cast<size_t>(kept) + 2 * kGuard;
  const DeviceValues<uint32_t> places(std::vector<uint32_t>(all, kUnwritten));
  const DeviceValues<float> values(
      std::vector<float>(all, std::bit_cast<float>(kUnwritten)));
  encode(values.span().subspan(kGuard, static_cast<size_t>(kept)),
         places.span().subspan(kGuard, static_cast<size_t>(kept)));
  Message message{places.get(test.context), {}};
  for (const float value : values.get(test.context))
    message.value_bits.push_back(std::bit_cast<uint32_t>(value));
  for (auto* words : {&message.places, &message.value_bits}) {
    for (size_t i = 0; i < kGuard; ++i) {
      EXPECT_EQ((*words)[i], kUnwritten);
      EXPECT_EQ((*words)[all - 1 - i], kUnwritten);
    }
    *words = {words->begin() + kGuard, words->end() - kGuard};
  }
  return message;
}

// Encodes x, stored from element `shift` of its memory on.
Message top_k(TestContext& test,
              const std::vector<float>& x,
              const std::vector<int64_t>& begins,
              const std::vector<int64_t>& kept,
              size_t shift = 0) {
  const DeviceValues<float> d_x(moved_by(shift, std::nanf(""), x));
  const Segments segments(test.context, begins);
  const Selection selection(test.context, segments, kept);
  return encoded(test, selection.total(), [&](auto values, auto places) {
    top_k_encode(test.context, values, places, d_x.span().subspan(shift),
                 segments, selection);
  });
}

Message expected_top_k(const std::vector<float>& x,
                       const std::vector<int64_t>& begins,
                       const std::vector<int64_t>& kept) {
  std::vector<uint64_t> keys;
  for (const float value : x) keys.push_back(magnitude(value));
  Message message{reference::select(keys, begins, kept), {}};
  for (const uint32_t place : message.places)
    message.value_bits.push_back(std::bit_cast<uint32_t>(x[place]));
  return message;
}

std::vector<int64_t> kept_by_ratio(const std::vector<int64_t>& begins,
                                   double ratio) {
  std::vector<int64_t> kept;
  for (size_t i = 0; i + 1 < begins.size(); ++i)
    kept.push_back(kept_of(begins[i + 1] - begins[i], ratio));
  return kept;
}

void expect_top_k(TestContext& test,
                  const std::vector<float>& x,
                  const std::vector<int64_t>& begins,
                  const std::vector<int64_t>& kept,
                  size_t shift = 0) {
  EXPECT_EQ(top_k(test, x, begins, kept, shift),
            expected_top_k(x, begins, kept))
      << testing::PrintToString(kept);
}

// At every ratio.
void expect_top_k(TestContext& test,
                  const std::vector<float>& x,
                  const std::vector<int64_t>& begins) {
  for (const double ratio : kRatios)
    expect_top_k(test, x, begins, kept_by_ratio(begins, ratio));
}

TEST(Select, KeptElemsAsPublished) {
  EXPECT_EQ(kept_of(1000, 0.9), 99);
  EXPECT_EQ(kept_of(640, 0.9), 63);
  EXPECT_EQ(kept_of(10, 0.9), 1);
  EXPECT_EQ(kept_of(1, 0.999), 1);
  EXPECT_EQ(kept_of(7, 0), 7);
  EXPECT_EQ(kept_of(36864, 0.5), 18432);
  TestContext test;
  const Segments segments(test.context, {0, 1000, 1640, 1650});
  EXPECT_EQ(kept_elems(segments, 0.9), (std::vector<int64_t>{99, 63, 1}));
  const Selection selection(test.context, segments, {99, 63, 1});
  EXPECT_EQ(selection.total(), 163);
  EXPECT_EQ(selection.begin(2), 162);
  EXPECT_EQ(selection.kept(1), 63);
}

TEST(Select, TopKOfEveryTensor) {
  TestContext test;
  const auto begins = begins_of(tensor_sizes());
  const auto x = normal_values(begins.back(), 1);
  expect_top_k(test, x, begins);
}

TEST(Select, TopKOfALargeTensor) {
  TestContext test, one(1), three(3);
  const std::vector<int64_t> begins{0, 7, 120000};
  auto x = normal_values(begins.back(), 2);
  // Tensors have rows of different sizes.
  for (size_t i = 0; i < x.size(); ++i)
    x[i] *= static_cast<float>(1 + i / 576 % 13);
  for (TestContext* context : {&test, &one, &three})
    expect_top_k(*context, x, begins);
}

TEST(Select, RangesBeginAnywhere) {
  TestContext test;
  const std::vector<int64_t> begins{0, 3, 5000};
  const auto x = normal_values(begins.back(), 3);
  const auto kept = kept_by_ratio(begins, 0.9);
  for (const size_t shift : {1, 2, 3})
    expect_top_k(test, x, begins, kept, shift);
}

TEST(Select, OfEqualOnesTheFirst) {
  TestContext test;
  const std::vector<int64_t> begins{0, 5, 10000, 30000};
  std::vector<float> x(static_cast<size_t>(begins.back()), 0.0f);
  const std::function<float(size_t)> values[] = {
      [](size_t) { return 0.0f; },
      [](size_t i) { return i % 3 == 0 ? -0.0f : 0.0f; },
      [](size_t i) { return i % 2 == 0 ? -1.5f : 1.5f; },
      [](size_t i) { return static_cast<float>(i * 7919 % 11) - 5; }};
  for (const auto& value_at : values) {
    for (size_t i = 0; i < x.size(); ++i) x[i] = value_at(i);
    expect_top_k(test, x, begins);
  }
}

TEST(Select, WhatIsNotFiniteIsLargest) {
  TestContext test;
  const float inf = std::numeric_limits<float>::infinity();
  auto x = normal_values(50000, 4);
  x[7] = inf;
  x[20000] = -inf;
  x[49999] = std::nanf("");
  x[300] = std::numeric_limits<float>::max();
  x[301] = std::numeric_limits<float>::denorm_min();
  for (const int64_t kept : {1, 2, 3, 4, 50000})
    expect_top_k(test, x, {0, 50000}, {kept});
  const auto one = top_k(test, x, {0, 50000}, {1});
  EXPECT_EQ(one.places, std::vector<uint32_t>{49999});
}

// The CPU looks at one element in 128 before it reads all. Here those are all
// larger than the rest, or all smaller.
TEST(Select, ASampleMayMislead) {
  TestContext test;
  const std::vector<int64_t> begins{0, 65536, 140000};
  for (const float sampled : {100.0f, 0.0f}) {
    auto x = normal_values(begins.back(), 5);
    for (uint32_t i = 0; i < 512; ++i)
      x[128 * i + (uint64_t{i * 0x9E3779B9} * 128 >> 32)] *= sampled;
    expect_top_k(test, x, begins);
  }
}

// A step on a GPU is recorded once.
TEST(Select, RecordedTopKFollowsItsInput) {
  TestContext test;
  const std::vector<int64_t> begins{0, 100, 9000};
  const auto kept = kept_by_ratio(begins, 0.99);
  const Segments segments(test.context, begins);
  const Selection selection(test.context, segments, kept);
  const DeviceVector<float> x(test.device, *test.stream, 9000);
  const auto total = static_cast<size_t>(selection.total());
  const DeviceValues<float> values(std::vector<float>(total, 0.0f));
  const DeviceValues<uint32_t> places(std::vector<uint32_t>(total, 0));
  const auto step = recorded(test, [&] {
    top_k_encode(test.context, values.span(), places.span(), x.span(), segments,
                 selection);
  });
  for (const uint64_t seed : {6, 7}) {
    const auto host = normal_values(9000, seed);
    test.device.copy(x.data(), host.data(), 9000 * 4, *test.stream);
    test.stream->synchronize();
    step();
    const auto expected = expected_top_k(host, begins, kept);
    EXPECT_EQ(places.get(test.context), expected.places);
  }
}

Message random_k(TestContext& test,
                 const std::vector<float>& x,
                 const std::vector<int64_t>& begins,
                 const std::vector<int64_t>& kept,
                 const Draw& draw,
                 Scaling scaling) {
  const DeviceValues<float> d_x(x);
  const Segments segments(test.context, begins);
  const Selection selection(test.context, segments, kept);
  return encoded(test, selection.total(), [&](auto values, auto places) {
    random_k_encode(test.context, values, places, d_x.span(), segments,
                    selection, draw, scaling);
  });
}

std::vector<uint32_t> expected_random_places(const std::vector<int64_t>& begins,
                                             const std::vector<int64_t>& kept,
                                             const Draw& draw) {
  Rng rng(draw.seed, Purpose::kQuantize, draw.worker, draw.step);
  std::vector<uint64_t> keys(static_cast<size_t>(begins.back()));
  for (uint64_t& key : keys) key = rng.next_u32();
  return reference::select(keys, begins, kept);
}

TEST(Select, RandomKFollowsTheCounters) {
  TestContext test, one(1);
  auto sizes = tensor_sizes();
  sizes.push_back(70001);
  const auto begins = begins_of(sizes);
  const auto x = normal_values(begins.back(), 8);
  const Draw draw{0x123456789ABCDEF0, 3, (uint64_t{5} << 32) + 77};
  for (const double ratio : kRatios) {
    const auto kept = kept_by_ratio(begins, ratio);
    const auto message = random_k(test, x, begins, kept, draw, Scaling::kNone);
    EXPECT_EQ(message.places, expected_random_places(begins, kept, draw));
    if (ratio != 0.9) continue;
    EXPECT_EQ(random_k(one, x, begins, kept, draw, Scaling::kNone), message);
    const auto scaled = random_k(test, x, begins, kept, draw, Scaling::kScaled);
    EXPECT_EQ(scaled.places, message.places);
    size_t i = 0;
    for (size_t tensor = 0; tensor < kept.size(); ++tensor)
      for (int64_t j = 0; j < kept[tensor]; ++j, ++i) {
        const float value = x[message.places[i]];
        EXPECT_EQ(message.value_bits[i], std::bit_cast<uint32_t>(value));
        const double factor = static_cast<double>(sizes[tensor]) /
                              static_cast<double>(kept[tensor]);
        ASSERT_TRUE(is_within(std::bit_cast<float>(scaled.value_bits[i]),
                              factor * double{value}, {0, 4 * kEpsilonF32}));
      }
  }
}

TEST(Select, RandomKDependsOnAllOfTheDraw) {
  TestContext test;
  const auto x = normal_values(1000, 9);
  const Draw draw{1, 2, 3};
  const auto places = [&](const Draw& other) {
    return random_k(test, x, {0, 1000}, {100}, other, Scaling::kNone).places;
  };
  const auto expected = places(draw);
  EXPECT_EQ(places(draw), expected);
  for (const Draw& other : {Draw{2, 2, 3}, Draw{1 + (uint64_t{1} << 32), 2, 3},
                            Draw{1, 3, 3}, Draw{1, 2 + (uint64_t{1} << 32), 3},
                            Draw{1, 2, 4}, Draw{1, 2, 3 + (uint64_t{1} << 32)}})
    EXPECT_NE(places(other), expected);
}

TEST(Select, EverySubsetIsEquallyLikely) {
  TestContext test;
  constexpr int kDraws = 300, kSubsets = 15;  // of 6, 2
  const auto x = normal_values(6, 10);
  std::map<std::vector<uint32_t>, int> counts;
  const DeviceValues<float> d_x(x), values(std::vector<float>(2, 0.0f));
  const DeviceValues<uint32_t> places(std::vector<uint32_t>(2, 0));
  const Segments segments(test.context, {0, 6});
  const Selection selection(test.context, segments, {2});
  for (uint64_t step = 0; step < kDraws; ++step) {
    random_k_encode(test.context, values.span(), places.span(), d_x.span(),
                    segments, selection, {11, 0, step}, Scaling::kNone);
    ++counts[places.get(test.context)];
  }
  ASSERT_EQ(counts.size(), size_t{kSubsets});
  double chi_square = 0;
  constexpr double kExpected = static_cast<double>(kDraws) / kSubsets;
  for (const auto& [subset, count] : counts)
    chi_square += (count - kExpected) * (count - kExpected) / kExpected;
  // Mean 14, deviation sqrt(28): five of them.
  EXPECT_LT(chi_square, 14 + 5 * std::sqrt(28.0));
}

TEST(Select, BlendTouchesThePlacesGiven) {
  TestContext test;
  for (const int64_t n : {1, 40, 30001})
    for (const auto& [a, b] : {std::pair{0.0f, 1.0f},
                               {1.0f, 1.0f},
                               {0.5f, -0.75f},
                               {0.0f, 0.3f},
                               {1.0f, 0.0f}}) {
      auto y = normal_values(n, 12);
      const auto all = normal_values(n, 13);
      std::vector<float> values;
      std::vector<uint32_t> places;
      for (uint32_t i = 0; i < n; i += 1 + i % 5) {
        places.push_back(i);
        values.push_back(all[i]);
      }
      if (a == 0) y[places.back()] = std::nanf("");
      const DeviceValues<float> d_y(y), d_values(values);
      const DeviceValues<uint32_t> d_places(places);
      sparse_blend(test.context, d_y.span(), d_values.span(), d_places.span(),
                   a, b);
      std::vector<float> expected = y;
      for (size_t i = 0; i < places.size(); ++i) {
        float& to = expected[places[i]];
        to = a == 0 ? b * values[i] : std::fma(b, values[i], a * to);
      }
      EXPECT_EQ(d_y.get(test.context), expected) << n << " " << a << " " << b;
    }
}

}  // namespace
}  // namespace syncopate
