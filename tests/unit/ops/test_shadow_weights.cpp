#include "ops/shadow_weights.h"

#include "device/device_vector.h"
#include "ops/optim_update.h"
#include "support/guarded_tensor.h"
#include "support/test_device.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

// Filters, whose channels are padded or not, a matrix and vectors, which start
// anywhere and with others between and behind them.
ShadowTable mixed_table() {
  ShadowTable table;
  table.add(3, {5, 3, 3, 3}, 8);
  table.add(140, {6, 7, 1, 1}, 7);
  table.add(190, {4, 6, 3, 2}, 6);
  table.add(336, {31, 33}, 33);
  table.add(1400, {13}, 13);
  table.add(1413, {20, 8}, 8);
  return table;
}
constexpr int64_t kElems = 1600;

struct Copies {
  explicit Copies(TestContext& test, const ShadowTable& of)
      : table(of),
        entries(test.device, *test.stream, std::ssize(of.entries())),
        values(DType::kBf16,
               {of.num_elems()},
               std::vector<double>(of.num_elems(), kUntouched)) {
    entries.assign(of.entries());
  }
  ShadowSlice from(int64_t element) const {
    return {entries.data(), entries.size(),
            static_cast<Bf16*>(values.tensor().data), element};
  }
  // All copies of x, and nothing else.
  void expect_of(const std::vector<double>& x) const {
    std::vector<double> expected(table.num_elems(), kUntouched);
    for (const ShadowEntry& entry : table.entries()) {
      const int64_t per_k = int64_t{entry.C} * entry.window;
      for (int64_t i = entry.begin; i < entry.end; ++i) {
        const int64_t k = (i - entry.begin) / per_k;
        const int64_t c = (i - entry.begin) % per_k / entry.window;
        const int64_t rs = (i - entry.begin) % entry.window;
        expected[entry.at + (k * entry.window + rs) * entry.padded_C + c] =
            to_float(to_bf16(static_cast<float>(x[i])));
      }
    }
    EXPECT_EQ(values.get(), expected);
  }

  static constexpr double kUntouched = 7;
  ShadowTable table;
  DeviceVector<ShadowEntry> entries;
  GuardedTensor values;
};

TEST(ShadowWeights, TablesKeepOneCopyOfEachAndAlignIt) {
  ShadowTable table = mixed_table();
  const int64_t elems = table.num_elems();
  table.add(190, {4, 6, 3, 2}, 6);
  EXPECT_EQ(table.num_elems(), elems);
  ASSERT_NE(table.find(190), nullptr);
  EXPECT_EQ(table.find(190)->end, 190 + 4 * 6 * 3 * 2);
  EXPECT_EQ(table.find(191), nullptr);
  for (const ShadowEntry& entry : table.entries())
    EXPECT_EQ(entry.at % ShadowTable::kAlignment, 0);
}

TEST(ShadowWeights, CopiesFollowTheTable) {
  TestContext test;
  const Copies copies(test, mixed_table());
  const GuardedTensor x = flat(kElems, 1);
  copy_weights(test.context, x, copies.from(0));
  copies.expect_of(x.get());
}

// A table for every element: filters whose packs are cut by their ends.
TEST(ShadowWeights, AdjacentTensorsMayEndWithinAPack) {
  TestContext test;
  ShadowTable table;
  for (int64_t at = 0, n = 1; at + n <= 300; at += n, ++n)
    table.add(at, {n}, n);
  const Copies copies(test, table);
  const GuardedTensor x = flat(300, 1);
  copy_weights(test.context, x, copies.from(0));
  copies.expect_of(x.get());
}

// An update writes what copy_weights() makes of its result, in slices that
// begin anywhere too.
TEST(ShadowWeights, UpdatesWriteTheCopies) {
  for (const float momentum : {0.0f, 0.9f})
    for (const int64_t cut : {int64_t{0}, int64_t{205}, int64_t{1001}}) {
      TestContext test;
      const Copies copies(test, mixed_table());
      const GuardedTensor x = flat(kElems, 1), m = flat(kElems, 2),
                          g = flat(kElems, 3);
      for (const auto& [begin, end] :
           {std::pair{int64_t{0}, cut}, std::pair{cut, kElems}})
        sgd_update(test.context, x.span().subspan(begin, end - begin),
                   m.span().subspan(begin, end - begin),
                   g.span().subspan(begin, end - begin),
                   {.rate = 0.1f,
                    .momentum = momentum,
                    .weight_decay = 0,
                    .copies = copies.from(begin)});
      copies.expect_of(x.get());
    }
}

TEST(ShadowWeights, AdamWritesTheCopies) {
  TestContext test;
  const Copies copies(test, mixed_table());
  const GuardedTensor x = flat(kElems, 1), m = flat(kElems, 2),
                      v = flat(std::vector<double>(kElems, 0.5)),
                      g = flat(kElems, 3);
  adam_update(test.context, x, m, v, g,
              {.rate = 0.1f,
               .beta1 = 0.9f,
               .beta2 = 0.999f,
               .eps = 1e-8f,
               .weight_decay = 0,
               .is_decoupled = true,
               .correction1 = 0.1f,
               .correction2 = 0.001f,
               .copies = copies.from(0)});
  copies.expect_of(x.get());
}

}  // namespace
}  // namespace syncopate
