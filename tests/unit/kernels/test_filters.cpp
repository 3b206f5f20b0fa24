#include "cuda/filters.h"

#include <gtest/gtest.h>

#include "support/guarded_tensor.h"
#include "support/test_device.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

struct Case {
  cuda::FilterSize size;
  DType dtype;
};

class FiltersTest : public testing::TestWithParam<Case> {
 protected:
  const cuda::FilterSize s = GetParam().size;
  const DType dtype = GetParam().dtype;
  const Shape kcrs{s.K, s.C, s.R, s.S}, krsc{s.K, s.R, s.S, s.packed_C};
  TestContext test;

  static size_t place(const Shape& dims, const std::vector<int64_t>& index) {
    int64_t at = 0;
    for (int axis = 0; axis < 4; ++axis) at = at * dims[axis] + index[axis];
    return static_cast<size_t>(at);
  }
  // body(place in kcrs, place in krsc)
  template <typename Body>
  void for_each(const Body& body) const {
    for (int64_t k = 0; k < s.K; ++k)
      for (int64_t c = 0; c < s.C; ++c)
        for (int64_t row = 0; row < s.R; ++row)
          for (int64_t column = 0; column < s.S; ++column)
            body(place(kcrs, {k, c, row, column}),
                 place(krsc, {k, row, column, c}));
  }
};

TEST_P(FiltersTest, PackingPutsChannelsLast) {
  const GuardedTensor w(DType::kF32, kcrs, Layout::kRowMajor,
                        random_values(kcrs.elems(), 1));
  GuardedTensor packed(dtype, krsc);
  cuda::pack_filters(test.context.stream(), packed.tensor().data,
                     w.tensor().f32(), s, dtype);
  const auto from = w.get();
  std::vector<double> expected(static_cast<size_t>(krsc.elems()));
  for_each([&](size_t kcrs_at, size_t krsc_at) {
    expected[krsc_at] = from[kcrs_at];
  });
  // fp32 is copied, bf16 is rounded once; other channels are zero.
  EXPECT_TRUE(all_near(packed.get(), expected,
                       {0, dtype == DType::kF32 ? 0.0 : kEpsilonBf16}));
  EXPECT_TRUE(packed.guards_are_intact());
}

TEST_P(FiltersTest, AccumulatingAddsInCanonicalOrder) {
  const GuardedTensor packed(dtype, krsc, Layout::kRowMajor,
                             random_values(krsc.elems(), 2));
  GuardedTensor dw(DType::kF32, kcrs, Layout::kRowMajor,
                   random_values(kcrs.elems(), 3));
  auto expected = dw.get();
  const auto added = packed.get();
  cuda::accumulate_filters(test.context.stream(), dw.tensor().f32(),
                           packed.tensor().data, s, dtype);
  for_each([&](size_t kcrs_at, size_t krsc_at) {
    expected[kcrs_at] += added[krsc_at];
  });
  // One addition, of magnitude up to 2, rounded to fp32.
  EXPECT_TRUE(all_near(dw.get(), expected, {2 * kEpsilonF32, 0}));
  EXPECT_TRUE(dw.guards_are_intact());
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const DType dtype : {DType::kF32, DType::kBf16})
    for (const cuda::FilterSize size :
         {cuda::FilterSize{1, 1, 1, 1}, cuda::FilterSize{16, 3, 3, 3},
          cuda::FilterSize{5, 17, 1, 1}, cuda::FilterSize{2, 3, 7, 5},
          // Some whole blocks of pairs (k, c), and a ragged one.
          cuda::FilterSize{32, 16, 3, 3}, cuda::FilterSize{3, 300, 1, 2},
          // Channels that are there for tensor cores only.
          cuda::FilterSize{16, 3, 3, 3, 8}, cuda::FilterSize{64, 1, 7, 7, 8}})
      all.push_back({size, dtype});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Shapes,
                         FiltersTest,
                         testing::ValuesIn(cases()),
                         [](const auto& info) {
                           const cuda::FilterSize& s = info.param.size;
                           return fmt::format("{}k{}c{}of{}r{}s{}",
                                              name_of(info.param.dtype), s.K,
                                              s.C, s.packed_C, s.R, s.S);
                         });

}  // namespace
}  // namespace syncopate
