// Which attention goes to tensor cores.
#include "cuda/attention_mma.h"

#include <gtest/gtest.h>

#include "support/guarded_tensor.h"
#include "support/test_device.h"

namespace syncopate {
namespace {

using namespace test;

bool can_use_mma(DType dtype, int64_t heads, int64_t D) {
  const int64_t H = heads * D;
  const GuardedTensor narrow(dtype, {3, H}), wide(dtype, {3, 3 * H});
  const GuardedTensor dwide(dtype, {3, 3 * H}), lse(DType::kF32, {3, heads});
  const bool forward = cuda::can_use_mma(
      AttentionForwardArgs{.out = narrow,
                           .lse = lse,
                           .qkv = wide,
                           .sequences = {.count = 1, .tokens = 3},
                           .heads = heads});
  const bool backward = cuda::can_use_mma(
      AttentionBackwardArgs{.dqkv = dwide,
                            .dout = narrow,
                            .qkv = wide,
                            .out = narrow,
                            .lse = lse,
                            .sequences = {.count = 1, .tokens = 3},
                            .heads = heads});
  EXPECT_EQ(forward, backward);
  return forward;
}

TEST(AttentionMma, TakesHeadsOfWholeFragmentsInBf16) {
  for (const int64_t D : {16, 32, 48, 64, 112, 128})
    EXPECT_TRUE(can_use_mma(DType::kBf16, 3, D)) << D;
  for (const int64_t D : {1, 8, 20, 24, 65})
    EXPECT_FALSE(can_use_mma(DType::kBf16, 2, D)) << D;
  EXPECT_FALSE(can_use_mma(DType::kF32, 2, 64));
}

TEST(AttentionMma, TakesOnlyMemoryAtMultiplesOf16Bytes) {
  const GuardedTensor memory(DType::kBf16, {5, 3 * 32});
  const GuardedTensor out(DType::kBf16, {3, 32}), lse(DType::kF32, {3, 2});
  AttentionForwardArgs args{.out = out,
                            .lse = lse,
                            .qkv = memory,
                            .sequences = {.count = 1, .tokens = 3},
                            .heads = 2};
  EXPECT_TRUE(cuda::can_use_mma(args));
  args.qkv.data = static_cast<const Bf16*>(memory.tensor().data) + 4;
  EXPECT_FALSE(cuda::can_use_mma(args));
}

}  // namespace
}  // namespace syncopate
