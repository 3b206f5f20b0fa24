#include "compress/compressor.h"

#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "base/rng.h"
#include "ops/combine.h"
#include "support/expect_error.h"
#include "support/test_device.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

constexpr double kRatios[] = {0.5, 0.9, 0.99, 0.999};

std::vector<CompressOptions> all_forms() {
  std::vector<CompressOptions> forms{{.kind = "identity"}, {.kind = "sign"}};
  for (const double ratio : kRatios) {
    forms.push_back({.kind = "top_k", .ratio = ratio});
    for (const bool biased : {false, true})
      forms.push_back({.kind = "random_k", .ratio = ratio, .biased = biased});
  }
  for (const bool biased : {false, true}) {
    for (const int64_t bits : {1, 2, 4, 8, 16})
      forms.push_back({.kind = "qsgd", .bits = bits, .biased = biased});
    forms.push_back({.kind = "qsgd", .levels = 16, .biased = biased});
  }
  return forms;
}

std::string text_of(const CompressOptions& form) {
  return fmt::format("{} ratio {} bits {} levels {} biased {}", form.kind,
                     form.ratio, form.bits, form.levels, form.biased);
}

bool is_random(const CompressOptions& form) {
  return form.kind == "random_k" || form.kind == "qsgd";
}

// Whether E[q] = x.
bool is_unbiased(const CompressOptions& form) {
  return form.kind == "identity" || (is_random(form) && !form.biased);
}

// Whether E|q - x|^2 < |x|^2 for tensors of up to 5000 elements. random_k with
// its factor 1 / (1 - ratio) is a contraction if it keeps more than half, qsgd
// if it has more than sqrt(5000) levels.
bool is_contraction(const CompressOptions& form) {
  if (!is_random(form) || form.biased) return true;
  if (form.kind == "random_k") return form.ratio < 0.5;
  return form.levels == 0 && form.bits >= 8;
}

ParameterTable table_of(const std::vector<int64_t>& sizes) {
  ParameterTable table;
  for (const int64_t elems : sizes)
    table.add(fmt::format("tensor{}", table.num_tensors()), Shape{elems},
              Role::kWeight);
  return table;
}

// Ragged; several in one word of signs; one element; more than a chunk.
ParameterTable ragged_table() {
  return table_of({1, 40, 3, 2, 1000, 1, 64, 5000});
}

// He et al.'s network for CIFAR-10 with projections: 65 tensors.
ParameterTable resnet20_table() {
  std::vector<int64_t> sizes;
  const auto conv_and_norm = [&](int64_t K, int64_t C, int64_t R) {
    sizes.insert(sizes.end(), {K * C * R * R, K, K});
  };
  conv_and_norm(16, 3, 3);
  int64_t C = 16;
  for (const int64_t K : {16, 32, 64})
    for (int block = 0; block < 3; ++block) {
      conv_and_norm(K, C, 3);
      conv_and_norm(K, K, 3);
      if (C != K) conv_and_norm(K, C, 1);
      C = K;
    }
  sizes.insert(sizes.end(), {640, 10});
  return table_of(sizes);
}

std::vector<float> normal_values(int64_t count, uint64_t seed) {
  Rng rng(seed, Purpose::kTest);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

// A compressor with memory for a message.
struct Bench {
  TestContext& test;
  std::unique_ptr<Compressor> compressor;
  size_t elems;
  DeviceValues<uint32_t> message;

  Bench(TestContext& test_,
        const CompressOptions& form,
        const ParameterTable& table,
        uint32_t fill = 0xFFFFFFFF)
      : test(test_),
        compressor(make_compressor(test.context, form, table)),
        elems(static_cast<size_t>(table.num_elems())),
        message(std::vector<uint32_t>(
            static_cast<size_t>(compressor->message_words()),
            fill)) {}

  std::vector<uint32_t> encode(const std::vector<float>& x, const Draw& draw) {
    const DeviceValues<float> d_x(x);
    compressor->encode(test.context, message.span(), d_x.span(), draw);
    return message.get(test.context);
  }
  std::vector<float> decode() {
    const DeviceValues<float> q(
        std::vector<float>(elems, std::numeric_limits<float>::quiet_NaN()));
    compressor->decode(test.context, q.span(), message.span());
    return q.get(test.context);
  }
  std::vector<float> blend(const std::vector<float>& y, float a, float b) {
    const DeviceValues<float> d_y(y);
    compressor->blend(test.context, d_y.span(), message.span(), a, b);
    return d_y.get(test.context);
  }
};

// How often a test of means encodes. Each takes long where a GPU is emulated,
// whose messages the tests of ops compare with the CPU's.
int draws_of(const TestContext& test, int on_cpu) {
  return test.device.kind() == DeviceKind::kCpu ? on_cpu : on_cpu / 10;
}

double square_of(const std::vector<float>& x) {
  double sum = 0;
  for (const float value : x) sum += double{value} * double{value};
  return sum;
}
double square_distance(const std::vector<float>& x,
                       const std::vector<float>& y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i)
    sum += (double{x[i]} - double{y[i]}) * (double{x[i]} - double{y[i]});
  return sum;
}

TEST(Compressors, TheFormsHereCoverTheTable) {
  std::set<std::string> tested;
  for (const auto& form : all_forms()) tested.insert(form.kind);
  std::set<std::string> known;
  for (const auto& [keyword, description] : compressor_table()) {
    known.insert(keyword);
    EXPECT_FALSE(description.empty());
  }
  EXPECT_EQ(tested, known);
}

TEST(Compressors, MessagesHaveTheSizeTheyAreSaidToHave) {
  TestContext test;
  for (const auto& table : {ragged_table(), table_of({1}), resnet20_table()})
    for (const auto& form : all_forms()) {
      const auto compressor = make_compressor(test.context, form, table);
      EXPECT_EQ(compressor->message_words() * 4, message_bytes(form, table))
          << text_of(form);
    }
}

// The figures that CHOCO-SGD's authors publish for their ResNet-20; qsgd with
// the sign bit that their count leaves out.
TEST(Compressors, MessagesOfResNet20) {
  const ParameterTable table = resnet20_table();
  ASSERT_EQ(table.num_elems(), 272474);
  ASSERT_EQ(table.num_tensors(), 65);
  const auto bits = [&](const CompressOptions& form) {
    return 8 * message_bytes(form, table);
  };
  EXPECT_EQ(bits({.kind = "identity"}), 8719168);
  EXPECT_EQ(bits({.kind = "sign"}), 274560);
  for (const char* kind : {"top_k", "random_k"}) {
    EXPECT_EQ(bits({.kind = kind, .ratio = 0.5}), 8719168);
    EXPECT_EQ(bits({.kind = kind, .ratio = 0.9}), 1742080);
    EXPECT_EQ(bits({.kind = kind, .ratio = 0.99}), 175744);
    EXPECT_EQ(bits({.kind = kind, .ratio = 0.999}), 19648);
  }
  constexpr int64_t kPadded = 272480;  // the next multiple of 32
  for (const int64_t b : {1, 2, 4, 8, 16})
    EXPECT_EQ(bits({.kind = "qsgd", .bits = b}), kPadded * (1 + b) + 32 * 65);
  // 16 levels are 17 values: five bits.
  EXPECT_EQ(bits({.kind = "qsgd", .levels = 16}), kPadded * 6 + 32 * 65);
}

TEST(Compressors, AMessageIsWrittenWhole) {
  TestContext test;
  const ParameterTable table = ragged_table();
  const auto x = normal_values(table.num_elems(), 1);
  for (const auto& form : all_forms()) {
    Bench ones(test, form, table), zeros(test, form, table, 0);
    EXPECT_EQ(ones.encode(x, {1, 2, 3}), zeros.encode(x, {1, 2, 3}))
        << text_of(form);
  }
}

TEST(Compressors, TheDrawDecidesAllRandomness) {
  TestContext test;
  const ParameterTable table = ragged_table();
  const auto x = normal_values(table.num_elems(), 2);
  for (const auto& form : all_forms()) {
    Bench bench(test, form, table);
    const auto message = bench.encode(x, {1, 2, 3});
    EXPECT_EQ(bench.encode(x, {1, 2, 3}), message) << text_of(form);
    for (const Draw& other : {Draw{2, 2, 3}, Draw{1, 3, 3}, Draw{1, 2, 4}})
      EXPECT_EQ(bench.encode(x, other) == message, !is_random(form))
          << text_of(form);
  }
}

TEST(Compressors, ContractionsContract) {
  TestContext test;
  const ParameterTable table = ragged_table();
  const auto x = normal_values(table.num_elems(), 3);
  for (const auto& form : all_forms()) {
    Bench bench(test, form, table);
    if (!is_contraction(form)) continue;
    const int draws = draws_of(test, 50);
    double mean = 0;
    for (int step = 0; step < draws; ++step) {
      bench.encode(x, {1, 0, static_cast<uint64_t>(step)});
      mean += square_distance(bench.decode(), x) / draws;
    }
    EXPECT_LT(mean, square_of(x)) << text_of(form);
  }
}

// How q of one element is spread about x.
struct Spread {
  double variance = 0, range = 0;
};
Spread spread_of(const CompressOptions& form,
                 double x,
                 double norm,  // of its tensor
                 int64_t elems) {
  if (form.kind == "identity") return {};
  if (form.kind == "random_k") {
    const auto d = static_cast<double>(elems);
    const auto k = std::max(1.0, std::floor(d * (1 - form.ratio)));
    return {x * x * (d / k - 1), std::fabs(x) * d / k};
  }
  const double s = form.levels > 0 ? static_cast<double>(form.levels)
                                   : std::exp2(form.bits) - 1;
  const double level = s * std::fabs(x) / norm;
  const double up = level - std::floor(level);
  return {up * (1 - up) * norm * norm / (s * s), norm / s};
}

TEST(Compressors, TheMeanOfUnbiasedOnesIsTheValue) {
  TestContext test;
  const ParameterTable table = table_of({1, 40, 20, 33});
  const auto x = normal_values(table.num_elems(), 4);
  for (const auto& form : all_forms()) {
    Bench bench(test, form, table);
    if (!is_unbiased(form)) continue;
    const int draws = draws_of(test, 600);
    std::vector<double> mean(x.size());
    for (int step = 0; step < draws; ++step) {
      bench.encode(x, {5, 1, static_cast<uint64_t>(step)});
      const auto q = bench.decode();
      for (size_t i = 0; i < q.size(); ++i) mean[i] += double{q[i]} / draws;
    }
    for (const ParameterEntry& entry : table.entries()) {
      const auto begin = x.begin() + entry.offset;
      const double norm = std::sqrt(
          square_of(std::vector<float>(begin, begin + entry.elems())));
      for (int64_t at = 0; at < entry.elems(); ++at) {
        const auto i = static_cast<size_t>(entry.offset + at);
        const Spread spread =
            spread_of(form, double{x[i]}, norm, entry.elems());
        // Bernstein's inequality: exceeded once in e^14 / 2 elements.
        constexpr double kLog = 14;
        const double bound = std::sqrt(2 * spread.variance * kLog / draws) +
                             2 * kLog / (3 * draws) * spread.range;
        EXPECT_TRUE(is_within(mean[i], double{x[i]}, {bound, 8 * kEpsilonF32}))
            << text_of(form) << " element " << i;
      }
    }
  }
}

TEST(Compressors, TopKKeepsItsShareOfTheSquare) {
  TestContext test;
  for (const double ratio : kRatios)
    for (const int64_t elems : {1, 10, 1000, 20000}) {
      const ParameterTable table = table_of({elems});
      const auto x = normal_values(elems, 5);
      Bench bench(test, {.kind = "top_k", .ratio = ratio}, table);
      bench.encode(x, {});
      const auto q = bench.decode();
      int64_t kept = 0;
      float smallest = std::numeric_limits<float>::infinity(), largest_left = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        if (q[i] != 0) {
          EXPECT_EQ(q[i], x[i]);
          smallest = std::min(smallest, std::fabs(x[i]));
          ++kept;
        } else {
          largest_left = std::max(largest_left, std::fabs(x[i]));
        }
      }
      EXPECT_EQ(kept, bench.compressor->message_words() / 2);
      EXPECT_GE(smallest, largest_left);
      EXPECT_LE(square_distance(q, x),
                (1 - static_cast<double>(kept) / static_cast<double>(elems)) *
                    square_of(x));
    }
}

TEST(Compressors, SignOfZeroIsPositive) {
  TestContext test;
  Bench bench(test, {.kind = "sign"}, table_of({4, 2}));
  bench.encode({0, 4, -4, -0.0f, -1, 3}, {});
  EXPECT_EQ(bench.decode(), (std::vector<float>{2, 2, -2, 2, -2, 2}));
}

TEST(Compressors, ZerosStayZeros) {
  TestContext test;
  const ParameterTable table = ragged_table();
  const std::vector<float> zeros(static_cast<size_t>(table.num_elems()), 0.0f);
  for (const auto& form : all_forms()) {
    Bench bench(test, form, table);
    bench.encode(zeros, {1, 2, 3});
    EXPECT_EQ(bench.decode(), zeros) << text_of(form);
  }
}

// Scaled compressors give less; all others reproduce a single element.
TEST(Compressors, OneElement) {
  TestContext test;
  for (const auto& form : all_forms())
    for (const float value : {3.25f, -0.5f}) {
      Bench bench(test, form, table_of({1}));
      bench.encode({value}, {1, 2, 3});
      // omega = min(1 / s^2, 1 / s)
      double expected = double{value};
      if (form.kind == "qsgd" && form.biased) {
        const double s = form.levels > 0 ? static_cast<double>(form.levels)
                                         : std::exp2(form.bits) - 1;
        expected /= 1 + 1 / (s * s);
      }
      const auto q = bench.decode();
      EXPECT_TRUE(is_within(double{q[0]}, expected, {0, 4 * kEpsilonF32}))
          << text_of(form);
    }
}

TEST(Compressors, BlendAddsWhatDecodeGives) {
  TestContext test;
  const ParameterTable table = ragged_table();
  const auto x = normal_values(table.num_elems(), 6);
  const auto y = normal_values(table.num_elems(), 7);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& form : all_forms()) {
    Bench bench(test, form, table);
    const auto message = bench.encode(x, {1, 2, 3});
    const auto q = bench.decode();
    std::vector<bool> is_held(x.size(), true);
    if (bench.compressor->is_sparse()) {
      is_held.assign(x.size(), false);
      for (size_t i = message.size() / 2; i < message.size(); ++i)
        is_held[message[i]] = true;
    }
    for (const auto& [a, b] :
         {std::pair{1.0f, 1.0f}, {0.75f, -0.3f}, {-1.0f, 2.0f}, {0.0f, 0.5f}}) {
      auto before = y;
      if (a == 0)
        for (size_t i = 0; i < y.size(); ++i)
          if (is_held[i]) before[i] = nan;
      const auto after = bench.blend(before, a, b);
      for (size_t i = 0; i < y.size(); ++i) {
        if (!is_held[i]) {
          ASSERT_EQ(after[i], before[i]) << text_of(form);
          continue;
        }
        const double old = a == 0 ? 0 : double{a} * double{before[i]};
        const double sent = double{b} * double{q[i]};
        // Two roundings, and one of the decoded value.
        const double scale = std::fabs(old) + std::fabs(sent);
        ASSERT_TRUE(is_within(double{after[i]}, old + sent,
                              {4 * kEpsilonF32 * scale, 0}))
            << text_of(form) << " " << a << " " << b << " element " << i;
      }
    }
  }
}

// residual = sum - q; then residual + q is the sum: to the bit where the
// difference is representable.
TEST(Compressors, ResidualAndSentAreTheSum) {
  TestContext test;
  const ParameterTable table = table_of({64, 1, 16, 4096});
  auto whole = normal_values(table.num_elems(), 8);
  for (float& value : whole) value = std::rint(8 * value);  // small integers
  const auto ragged = normal_values(table.num_elems(), 9);
  for (const auto& form : all_forms())
    for (const std::vector<float>* x : {&std::as_const(whole), &ragged}) {
      Bench bench(test, form, table);
      bench.encode(*x, {1, 2, 3});
      const auto q = bench.decode();
      const DeviceValues<float> residual(*x), sum(*x);
      bench.compressor->blend(test.context, residual.span(),
                              bench.message.span(), 1, -1);
      const auto left = residual.get(test.context);
      const bool is_exact = form.kind == "identity" || form.kind == "top_k" ||
                            (form.kind == "random_k" && form.biased) ||
                            (form.kind == "sign" && x == &whole);
      for (size_t i = 0; i < q.size(); ++i) {
        const double bound =
            is_exact ? 0
                     : 4 * kEpsilonF32 * std::fabs(double{q[i]}) +
                           4 * kEpsilonF32 * std::fabs(double{(*x)[i]});
        ASSERT_TRUE(is_within(double{left[i]} + double{q[i]}, double{(*x)[i]},
                              {bound, 0}))
            << text_of(form) << " element " << i;
      }
    }
}

std::string refusal(const CompressOptions& form) {
  TestContext test;
  const ParameterTable table = table_of({10, 20});
  const Error error = error_of([&] { message_bytes(form, table); });
  expect_error(ExitCode::kBadInput, error.what(),
               [&] { make_compressor(test.context, form, table); });
  EXPECT_EQ(error.code(), ExitCode::kBadInput);
  return error.what();
}

TEST(Compressors, RefusalsSayWhatWouldDo) {
  EXPECT_EQ(refusal({.kind = "zip"}),
            "compress.kind = zip: expected one of identity sign top_k random_k "
            "qsgd");
  for (const char* kind : {"top_k", "random_k"}) {
    const std::string range =
        "expected the share that is dropped, at least 0 and below 1";
    EXPECT_EQ(refusal({.kind = kind, .ratio = 1}),
              "compress.ratio = 1: " + range);
    EXPECT_EQ(refusal({.kind = kind, .ratio = -0.5}),
              "compress.ratio = -0.5: " + range);
    EXPECT_EQ(refusal({.kind = kind,
                       .ratio = std::numeric_limits<double>::quiet_NaN()}),
              "compress.ratio = nan: " + range);
  }
  EXPECT_EQ(refusal({.kind = "qsgd", .bits = 0}),
            "compress.bits = 0: expected 1 to 16");
  EXPECT_EQ(refusal({.kind = "qsgd", .bits = 17}),
            "compress.bits = 17: expected 1 to 16");
  for (const int64_t levels : {-1, 65536})
    EXPECT_EQ(refusal({.kind = "qsgd", .levels = levels}),
              fmt::format("compress.levels = {}: expected 1 to 65535, or 0 to "
                          "count by compress.bits",
                          levels));
}

}  // namespace
}  // namespace syncopate
