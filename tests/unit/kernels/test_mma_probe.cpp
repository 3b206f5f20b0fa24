// The map of fragments: what a device multiplies where.
#include "cuda/mma_probe.h"

#include <gtest/gtest.h>

#include "support/guarded_tensor.h"
#include "support/test_device.h"

namespace syncopate {
namespace {

using namespace test;

constexpr int64_t kM = 16, kN = 8, kK = 16;

struct Probe {
  TestContext test;
  GuardedTensor a{DType::kBf16, {kM, kK}}, b{DType::kBf16, {kK, kN}};
  GuardedTensor product{DType::kF32, {kM, kN}};
  std::vector<double> multiply(const std::vector<double>& a_values,
                               const std::vector<double>& b_values,
                               bool is_b_transposed) {
    a.set(a_values);
    b.set(b_values);
    cuda::multiply_fragments(test.context, product.tensor().f32(),
                             static_cast<const Bf16*>(a.tensor().data),
                             static_cast<const Bf16*>(b.tensor().data),
                             is_b_transposed);
    test.context.stream().synchronize();
    return product.get();
  }
};

// A unit vector on the left picks the row of b of its column and puts it into
// its own row; b's elements are all different and exact in bf16.
TEST(MmaProbe, UnitVectorsPickRows) {
  Probe probe;
  for (const bool is_b_transposed : {false, true}) {
    std::vector<double> b(kK * kN);
    for (int64_t k = 0; k < kK; ++k)
      for (int64_t n = 0; n < kN; ++n)
        b[is_b_transposed ? n * kK + k : k * kN + n] =
            static_cast<double>(k * kN + n + 1);
    for (int64_t m = 0; m < kM; ++m)
      for (int64_t k = 0; k < kK; ++k) {
        std::vector<double> a(kM * kK), expected(kM * kN);
        a[m * kK + k] = 1;
        for (int64_t n = 0; n < kN; ++n)
          expected[m * kN + n] = static_cast<double>(k * kN + n + 1);
        EXPECT_EQ(probe.multiply(a, b, is_b_transposed), expected)
            << "row " << m << ", column " << k << ", "
            << (is_b_transposed ? "b transposed" : "b as it is");
      }
  }
}

// The other way round: a unit vector on the right picks a column of a.
TEST(MmaProbe, UnitVectorsPickColumns) {
  Probe probe;
  std::vector<double> a(kM * kK);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<double>(i + 1);
  for (int64_t k = 0; k < kK; ++k)
    for (int64_t n = 0; n < kN; ++n) {
      std::vector<double> b(kK * kN), expected(kM * kN);
      b[k * kN + n] = 1;
      for (int64_t m = 0; m < kM; ++m) expected[m * kN + n] = a[m * kK + k];
      EXPECT_EQ(probe.multiply(a, b, false), expected) << k << ", " << n;
    }
}

}  // namespace
}  // namespace syncopate
