// Barriers of blocks: right where they are, wrong results where one is
// missing, reports where they diverge.
#include <numeric>

#include "unit/emulator/emulated.h"

namespace syncopate::test {
namespace {

using BarrierTest = Emulated;

enum class Barriers { kAll, kLastMissing, kFirstMissing };

// out[block] = sum of the block's elements, by halving in shared memory.
template <Barriers kBarriers>
__global__ void sum_kernel(float* out, const float* in) {
  float* partial = shared_memory<float>();
  const unsigned thread = threadIdx.x;
  partial[thread] = in[blockIdx.x * blockDim.x + thread];
  if constexpr (kBarriers != Barriers::kFirstMissing) __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (thread < half) partial[thread] += partial[thread + half];
    if constexpr (kBarriers != Barriers::kLastMissing) __syncthreads();
  }
  if (thread == 0) out[blockIdx.x] = partial[0];
}

class SumTest : public Emulated {
 protected:
  template <Barriers kBarriers>
  std::vector<float> sums(uint64_t seed) {
    emulator::set_seed(seed);
    const auto out = array<float>(kBlocks);
    launch(sum_kernel<kBarriers>, kBlocks, kThreads, kThreads * 4, *stream,
           out.data(), in_.data());
    return values(out);
  }
  // Small integers: exact in any order.
  std::vector<float> expected() const {
    std::vector<float> sums(kBlocks);
    for (int at = 0; at < kBlocks * kThreads; ++at)
      sums[at / kThreads] += host_[at];
    return sums;
  }
  static std::vector<float> ramp() {
    std::vector<float> host(kBlocks * kThreads);
    for (int at = 0; at < kBlocks * kThreads; ++at)
      host[at] = static_cast<float>(at % 97 + 1);
    return host;
  }

  static constexpr int kBlocks = 3, kThreads = 128;
  const std::vector<float> host_ = ramp();
  const Array<float> in_ = array(host_);
};

TEST_F(SumTest, IsRightForAHundredSeeds) {
  for (uint64_t seed = 0; seed < 100; ++seed)
    EXPECT_EQ(sums<Barriers::kAll>(seed), expected()) << seed;
}

TEST_F(SumTest, AMissingBarrierIsAWrongResult) {
  int num_wrong = 0;
  for (uint64_t seed = 0; seed < 20; ++seed)
    num_wrong += sums<Barriers::kLastMissing>(seed) != expected();
  EXPECT_GE(num_wrong, 1);
  EXPECT_EQ(num_wrong, 20);  // 2^-100 and less: an order that hides it
}

TEST_F(SumTest, AMissingFirstBarrierIsAWrongResult) {
  int num_wrong = 0;
  for (uint64_t seed = 0; seed < 20; ++seed)
    num_wrong += sums<Barriers::kFirstMissing>(seed) != expected();
  EXPECT_GE(num_wrong, 10);  // a block whose warps run in order may hide it
}

__global__ void warp_sum_kernel(float* out, const float* in, int64_t elems) {
  float* partial = shared_memory<float>();
  float sum = 0;
  for (int64_t at = threadIdx.x; at < elems; at += blockDim.x) sum += in[at];
  for (int step = kWarpSize / 2; step > 0; step /= 2)
    sum += __shfl_down_sync(0xFFFFFFFFu, sum, step);
  if (threadIdx.x % kWarpSize == 0) partial[threadIdx.x / kWarpSize] = sum;
  __syncthreads();
  if (threadIdx.x < kWarpSize) {
    const unsigned num_warps = blockDim.x / kWarpSize;
    sum = threadIdx.x < num_warps ? partial[threadIdx.x] : 0;
    for (int step = kWarpSize / 2; step > 0; step /= 2)
      sum += __shfl_down_sync(0xFFFFFFFFu, sum, step);
    if (threadIdx.x == 0) *out = sum;
  }
}

TEST_F(BarrierTest, ShufflesAndBarriersTogether) {
  std::vector<float> host(1000);
  std::iota(host.begin(), host.end(), 1.0f);
  const auto in = array(host);
  const auto out = array<float>(1);
  for (uint64_t seed = 0; seed < 100; ++seed) {
    emulator::set_seed(seed);
    launch(warp_sum_kernel, 1, 256, 8 * 4, *stream, out.data(), in.data(),
           1000);
    EXPECT_EQ(values(out)[0], 500500.0f) << seed;
  }
}

// Two sums over the block, one after the other, in the same shared memory: a
// warp that is through with the first may overwrite what others still read.
template <Barriers kBarriers>
__global__ void two_sums_kernel(float* out, const float* in) {
  float* partial = shared_memory<float>();
  const unsigned warp = threadIdx.x / kWarpSize;
  for (int round = 0; round < 2; ++round) {
    float sum = in[threadIdx.x] * static_cast<float>(round + 1);
    for (int step = kWarpSize / 2; step > 0; step /= 2)
      sum += __shfl_xor_sync(0xFFFFFFFFu, sum, step);
    if (threadIdx.x % kWarpSize == 0) partial[warp] = sum;
    __syncthreads();
    float total = 0;
    for (unsigned i = 0; i < blockDim.x / kWarpSize; ++i) total += partial[i];
    if constexpr (kBarriers == Barriers::kAll) __syncthreads();
    out[round * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)] =
        total;
  }
}

TEST_F(BarrierTest, AWarpThatRunsAheadIsSeen) {
  const auto in = array(std::vector<float>(128, 1.0f));
  const auto out = array<float>(256);
  std::vector<float> expected(256, 128.0f);
  std::fill(expected.begin() + 128, expected.end(), 256.0f);
  int num_wrong = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    emulator::set_seed(seed);
    launch(two_sums_kernel<Barriers::kAll>, 1, 128, 16, *stream, out.data(),
           in.data());
    EXPECT_EQ(values(out), expected) << seed;
    launch(two_sums_kernel<Barriers::kLastMissing>, 1, 128, 16, *stream,
           out.data(), in.data());
    num_wrong += values(out) != expected;
  }
  EXPECT_GE(num_wrong, 5);  // half of the seeds let warps run ahead
}

__global__ void guarded_barrier_kernel(int blocks_before, int limit) {
  if (static_cast<int>(blockIdx.y) < blocks_before) return;
  if (static_cast<int>(threadIdx.x) < limit) __syncthreads();
}

TEST_F(BarrierTest, ABarrierThatSomeThreadsMissIsReported) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    emulator::set_seed(seed);
    const std::string line = error_of([&] {
      launch(guarded_barrier_kernel, dim3(1, 3), 64, 0, *stream, 2, 63);
    });
    EXPECT_TRUE(has(line,
                    "emulator: kernel syncopate::test::(anonymous "
                    "namespace)::guarded_barrier_kernel, block (0,2,0), "
                    "thread ("));
    EXPECT_TRUE(has(line, "hread (63,0,0)"));
    EXPECT_TRUE(has(line, "has exited"));
    EXPECT_TRUE(has(line, "waits at __syncthreads() (test_barrier.cpp:"));
  }
  launch(guarded_barrier_kernel, dim3(1, 3), 64, 0, *stream, 2, 64);
}

__global__ void two_barriers_kernel() {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

TEST_F(BarrierTest, ThreadsAtUnlikeBarriersAreReported) {
  const std::string line =
      error_of([&] { launch(two_barriers_kernel, 1, 64, 0, *stream); });
  EXPECT_TRUE(has(line, "two_barriers_kernel, block (0,0,0), thread ("));
  EXPECT_TRUE(has(line, "waits at another (test_barrier.cpp:"));
}

// A lane's local variables and indices are its own across barriers.
__global__ void locals_kernel(int* wrong) {
  const unsigned thread = threadIdx.x + blockDim.x * threadIdx.y;
  volatile unsigned kept[16];
  for (unsigned i = 0; i < 16; ++i) kept[i] = thread * 16 + i;
  for (int round = 0; round < 10; ++round) {
    __syncthreads();
    bool is_right = thread == threadIdx.x + blockDim.x * threadIdx.y;
    for (unsigned i = 0; i < 16; ++i) is_right &= kept[i] == thread * 16 + i;
    if (!is_right) wrong[thread] = 1;
  }
}

TEST_F(BarrierTest, LocalVariablesSurviveBarriers) {
  const auto wrong = array(std::vector<int>(1024));
  launch(locals_kernel, 2, dim3(32, 32), 0, *stream, wrong.data());
  EXPECT_EQ(values(wrong), std::vector<int>(1024));
}

}  // namespace
}  // namespace syncopate::test
