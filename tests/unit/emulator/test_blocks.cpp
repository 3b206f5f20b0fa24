// Blocks of one launch that are in flight together: a kernel that relies on an
// order among them gives a wrong result.
#include <cuda/atomic.cuh>
#include <set>

#include "unit/emulator/emulated.h"

namespace syncopate::test {
namespace {

constexpr int kBlocks = 8, kThreads = 64, kSeeds = 40;

// What lies between a block's read of the count and its write of it.
enum class Between { kBarrier, kWarp, kAtomic };

template <Between kBetween>
__global__ void count_kernel(uint32_t* count, uint32_t* other) {
  const uint32_t before = *count;
  if constexpr (kBetween == Between::kBarrier) __syncthreads();
  if constexpr (kBetween == Between::kWarp) __syncwarp();
  if constexpr (kBetween == Between::kAtomic) cuda::add_atomically(other, 1);
  if (threadIdx.x == 0) *count = before + 1;
}

__global__ void count_atomically_kernel(uint32_t* count, uint32_t* other) {
  for (int i = 0; i < 3; ++i) {
    cuda::add_atomically(count, 1);
    __syncthreads();
    cuda::add_atomically(other, 2);
  }
}

class BlocksTest : public Emulated {
 protected:
  // {count, other} after all blocks, both 0 before.
  template <typename Kernel>
  std::vector<uint32_t> counted(Kernel kernel, int threads, uint64_t seed) {
    emulator::set_seed(seed);
    const auto counts = array(std::vector<uint32_t>{0, 0});
    launch(kernel, kBlocks, threads, 0, *stream, counts.data(),
           counts.data() + 1);
    return values(counts);
  }

  // In one run for each seed.
  template <Between kBetween>
  int num_wrong(int threads) {
    int wrong = 0;
    for (uint64_t seed = 0; seed < kSeeds; ++seed)
      wrong += counted(count_kernel<kBetween>, threads, seed)[0] != kBlocks;
    return wrong;
  }

  template <Between kBetween>
  int num_wrong(int threads, int blocks_in_flight) {
    emulator::set_blocks_in_flight(blocks_in_flight);
    return num_wrong<kBetween>(threads);
  }
};

TEST_F(BlocksTest, AnAdditionThatAnotherBlockInterruptsIsAWrongResult) {
  for (const int in_flight : {2, 3, kBlocks}) {
    EXPECT_GE(num_wrong<Between::kBarrier>(kThreads, in_flight), kSeeds / 2);
    EXPECT_GE(num_wrong<Between::kWarp>(kWarpSize, in_flight), kSeeds / 2);
    EXPECT_GE(num_wrong<Between::kAtomic>(1, in_flight), kSeeds / 8);
  }
  // Neither error shows where blocks run one after the other.
  EXPECT_EQ(num_wrong<Between::kBarrier>(kThreads, 1), 0);
  EXPECT_EQ(num_wrong<Between::kAtomic>(1, 1), 0);
}

// The same when only the environment says how many.
TEST_F(BlocksTest, AsManyAreInFlightAsTheEnvironmentSays) {
  const uint64_t given =
      emulator::number_of_environment("SYNCOPATE_EMULATOR_BLOCKS", 1);
  if (given == 1)
    GTEST_SKIP() << "SYNCOPATE_EMULATOR_BLOCKS is not set; the test "
                    "emulator.itself.interleaved sets it";
  emulator::set_blocks_in_flight(blocks_before_);
  EXPECT_GE(num_wrong<Between::kBarrier>(kThreads), kSeeds / 2);
}

TEST_F(BlocksTest, AtomicAdditionsAreWhole) {
  const uint32_t additions = 3 * kBlocks * kThreads;
  for (uint64_t seed = 0; seed < kSeeds; ++seed)
    EXPECT_EQ(counted(count_atomically_kernel, kThreads, seed),
              (std::vector{additions, 2 * additions}))
        << seed;
}

// Each block writes a number and, past a barrier of its own, takes what its
// neighbour wrote.
__global__ void exchange_kernel(int* out, int* numbers) {
  const unsigned other = blockIdx.x ^ 1;
  if (threadIdx.x == 0) numbers[blockIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = numbers[other];
}

TEST_F(BlocksTest, WhatAnotherBlockWritesMayOrMayNotBeThere) {
  std::set<std::vector<int>> seen;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    emulator::set_seed(seed);
    const auto out = array<int>(2), numbers = array(std::vector<int>{0, 0});
    launch(exchange_kernel, 2, kThreads, 0, *stream, out.data(),
           numbers.data());
    seen.insert(values(out));
  }
  // One of the blocks first, and both between their barriers.
  EXPECT_EQ(seen, (std::set<std::vector<int>>{{0, 1}, {1, 0}, {1, 1}}));
}

__global__ void own_kernel(unsigned* wrong, int rounds) {
  unsigned* shared = shared_memory<unsigned>();
  const unsigned block = blockIdx.x;
  for (int round = 0; round < rounds; ++round) {
    shared[threadIdx.x] = block * 1000 + threadIdx.x;
    __syncthreads();
    const unsigned other = (threadIdx.x + 1) % blockDim.x;
    if (shared[other] != block * 1000 + other || blockIdx.x != block)
      cuda::add_atomically(wrong, 1);
    __syncthreads();
  }
}

TEST_F(BlocksTest, EachHasItsOwnSharedMemoryAndIndex) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    emulator::set_seed(seed);
    const auto wrong = array(std::vector<unsigned>{0});
    launch(own_kernel, kBlocks, kThreads, kThreads * 4, *stream, wrong.data(),
           5);
    EXPECT_EQ(values(wrong)[0], 0u) << seed;
  }
}

__global__ void half_at_barrier_kernel() {
  __syncthreads();
  if (blockIdx.x == 3 && threadIdx.x == 0) return;
  __syncthreads();
}

TEST_F(BlocksTest, AFailureEndsAllBlocksAndNamesItsOwn) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    emulator::set_seed(seed);
    EXPECT_TRUE(has(error_of([&] {
                      launch(half_at_barrier_kernel, kBlocks, kThreads, 0,
                             *stream);
                    }),
                    "half_at_barrier_kernel, block (3,0,0), thread"));
    EXPECT_EQ(counted(count_atomically_kernel, kThreads, seed)[0],
              3u * kBlocks * kThreads);
  }
}

}  // namespace
}  // namespace syncopate::test
