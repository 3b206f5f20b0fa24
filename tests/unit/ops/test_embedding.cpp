#include "ops/embedding.h"

#include <cmath>

#include "base/rng.h"
#include "reference/embedding.h"
#include "support/guarded_tensor.h"
#include "support/recorded.h"
#include "support/test_device.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

std::vector<double> random_ids(int64_t n, int64_t V, uint64_t seed) {
  Rng rng(seed, Purpose::kTest);
  std::vector<double> ids;
  for (int64_t i = 0; i < n; ++i)
    ids.push_back(static_cast<double>(rng.below(static_cast<uint64_t>(V))));
  return ids;
}

GuardedTensor ids_of(const std::vector<double>& values) {
  return flat(values, DType::kI32);
}

TEST(Embedding, ForwardAddsTheRows) {
  for (const DType dtype : {DType::kF32, DType::kBf16})
    for (const int64_t D : {1, 7, 16, 24, 131, 1024})
      for (size_t inputs = 1; inputs <= 3; ++inputs) {
        TestContext test, one(1);
        constexpr int64_t kTokens = 37;
        const int64_t rows[] = {50, 2, 1};
        std::vector<GuardedTensor> tables, ids;
        std::vector<EmbeddingInput> arguments;
        std::vector<double> expected(static_cast<size_t>(kTokens * D));
        for (size_t i = 0; i < inputs; ++i) {
          tables.push_back(random_tensor({rows[i], D}, i));
          ids.push_back(ids_of(random_ids(kTokens, rows[i], i)));
          arguments.push_back({tables[i], ids[i]});
          reference::add_embedding(expected, D, tables[i].get(), ids[i].get());
        }
        const GuardedTensor y(dtype, {kTokens, D}), again(dtype, {kTokens, D});
        embedding_forward(test.context, y, arguments);
        EXPECT_TRUE(
            all_near(y.get(), expected,
                     {4 * kEpsilonF32, inputs == 1 && dtype == DType::kF32
                                           ? 0
                                           : epsilon_of(dtype) * 1.001}));
        embedding_forward(one.context, again, arguments);
        EXPECT_EQ(again.bytes(), y.bytes());
      }
}

struct BackwardShape {
  int64_t n, V, D;
};

// Few ids with many tokens, many ids with few, tables of several digits.
TEST(Embedding, BackwardAddsUpToTheTable) {
  for (const DType dtype : {DType::kF32, DType::kBf16})
    for (const auto& [n, V, D] : {BackwardShape{0, 5, 8},
                                  {1, 1, 1},
                                  {300, 2, 131},
                                  {1000, 1, 16},
                                  {97, 300, 128},
                                  {2500, 1300, 24},
                                  {4600, 30522, 8},
                                  {700, 70000, 3},
                                  {65, 2, 1024}}) {
      SCOPED_TRACE(fmt::format("{} n {} V {} D {}", name_of(dtype), n, V, D));
      TestContext test, one(1);
      const GuardedTensor dtable = random_tensor({V, D}, 1);
      const GuardedTensor again = random_tensor({V, D}, 1);
      const GuardedTensor dy = random_tensor({n, D}, 2, dtype);
      const GuardedTensor ids = ids_of(random_ids(n, V, 3));
      auto expected = dtable.get();
      reference::add_embedding_gradient(expected, D, dy.get(), ids.get());
      embedding_backward(test.context, dtable, dy, ids);
      // Sums of n / V terms below 1, in any order.
      const double terms = static_cast<double>(n) / static_cast<double>(V) + 4;
      EXPECT_TRUE(all_near(dtable.get(), expected,
                           {terms * std::sqrt(terms) * kEpsilonF32, 0}));
      embedding_backward(one.context, again, dy, ids);
      EXPECT_EQ(again.bytes(), dtable.bytes());
    }
}

// Sums of small integers are exact: no row is lost, or counted twice, however
// ids lie across the chunks of the sorted tokens.
TEST(Embedding, BackwardCountsEachTokenOnce) {
  TestContext test;
  for (const int64_t V : {1, 3, 40})
    for (const int64_t n : {31, 33, 64, 129, 500}) {
      const GuardedTensor dtable(DType::kF32, {V, 4},
                                 std::vector<double>(V * 4, 1));
      std::vector<double> dy(static_cast<size_t>(n * 4));
      for (size_t i = 0; i < dy.size(); ++i)
        dy[i] = static_cast<double>(i % 17);
      const GuardedTensor upstream(DType::kF32, {n, 4}, dy);
      const GuardedTensor ids = ids_of(random_ids(n, V, 7));
      auto expected = dtable.get();
      reference::add_embedding_gradient(expected, 4, dy, ids.get());
      embedding_backward(test.context, dtable, upstream, ids);
      EXPECT_EQ(dtable.get(), expected) << V << " " << n;
    }
}

TEST(Embedding, BackwardLeavesOtherRowsAlone) {
  TestContext test;
  std::vector<double> values(30, std::nan(""));
  for (size_t i = 9; i < 12; ++i) values[i] = 1;
  const GuardedTensor dtable(DType::kF32, {10, 3}, values);
  const GuardedTensor dy(DType::kF32, {2, 3}, {1, 2, 3, 10, 20, 30});
  embedding_backward(test.context, dtable, dy, ids_of({3, 3}));
  const auto after = dtable.get();
  for (size_t i = 0; i < after.size(); ++i)
    EXPECT_EQ(std::isnan(after[i]), i / 3 != 3);
  EXPECT_EQ(std::vector<double>(after.begin() + 9, after.begin() + 12),
            (std::vector<double>{12, 23, 34}));
}

TEST(Embedding, IdOutOfRangeIsRefused) {
  TestContext test;
  for (const double bad : {-1.0, 4.0, 1e9}) {
    const GuardedTensor table(DType::kF32, {4, 8}, std::vector<double>(32, 1));
    const GuardedTensor dy(DType::kF32, {2, 8}, std::vector<double>(16, 1));
    const GuardedTensor y(DType::kF32, {2, 8});
    const GuardedTensor ids = ids_of({2, bad});
    const EmbeddingInput input{table, ids};
    if (test_device().kind() == DeviceKind::kCpu) {
      EXPECT_THROW(embedding_forward(test.context, y, {&input, 1}), Error);
      EXPECT_THROW(embedding_backward(test.context, table, dy, ids), Error);
    } else {
      embedding_forward(test.context, y, {&input, 1});
      const auto rows = y.get();
      for (size_t i = 0; i < 8; ++i) {
        EXPECT_EQ(rows[i], 1);
        EXPECT_TRUE(std::isnan(rows[8 + i]));
      }
      embedding_backward(test.context, table, dy, ids);
      const auto sums = table.get();
      for (size_t i = 0; i < 32; ++i) EXPECT_EQ(sums[i], i / 8 == 2 ? 2 : 1);
    }
  }
}

TEST(Embedding, RecordedIsTheSame) {
  TestContext test;
  constexpr int64_t kTokens = 200, kRows = 700, kColumns = 12;
  GuardedTensor ids = ids_of(random_ids(kTokens, kRows, 1));
  const GuardedTensor table = random_tensor({kRows, kColumns}, 1);
  GuardedTensor dtable(DType::kF32, {kRows, kColumns});
  const GuardedTensor y(DType::kF32, {kTokens, kColumns});
  const EmbeddingInput input{table, ids};
  const auto step = recorded(test, [&] {
    embedding_forward(test.context, y, {&input, 1});
    embedding_backward(test.context, dtable, y, ids);
  });
  for (const uint64_t seed : {2, 3}) {
    ids.set(random_ids(kTokens, kRows, seed));
    dtable.set(std::vector<double>(kRows * kColumns));
    step();
    std::vector<double> rows(kTokens * kColumns), sums(kRows * kColumns);
    reference::add_embedding(rows, kColumns, table.get(), ids.get());
    EXPECT_EQ(y.get(), rows);
    reference::add_embedding_gradient(sums, kColumns, rows, ids.get());
    EXPECT_TRUE(all_near(dtable.get(), sums, {8 * kEpsilonF32, 0}));
  }
}

}  // namespace
}  // namespace syncopate
