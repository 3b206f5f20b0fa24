// Indices, arguments and the checks of a launch.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <set>

#include "unit/emulator/emulated.h"

namespace syncopate::test {
namespace {

using LaunchTest = Emulated;

struct Seen {
  unsigned thread[3], block[3], threads[3], blocks[3];
};

__global__ void index_kernel(Seen* seen, int* order, int* counter) {
  const int64_t block =
      blockIdx.x + int64_t{gridDim.x} * (blockIdx.y + gridDim.y * blockIdx.z);
  const int64_t thread =
      threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const int64_t at = block * blockDim.x * blockDim.y * blockDim.z + thread;
  seen[at] = {{threadIdx.x, threadIdx.y, threadIdx.z},
              {blockIdx.x, blockIdx.y, blockIdx.z},
              {blockDim.x, blockDim.y, blockDim.z},
              {gridDim.x, gridDim.y, gridDim.z}};
  order[(*counter)++] = static_cast<int>(at);
}

TEST_F(LaunchTest, EveryThreadOfEveryBlockRunsOnceWithItsIndices) {
  const dim3 grid(3, 2, 2), block(5, 4, 3);
  const int total = 12 * 60;
  emulator::set_blocks_in_flight(1);
  const auto seen = array<Seen>(total);
  const auto order = array<int>(total);
  const auto counter = array(std::vector<int>{0});
  launch(index_kernel, grid, block, 0, *stream, seen.data(), order.data(),
         counter.data());
  const auto found = values(seen);
  for (int at = 0; at < total; ++at) {
    const unsigned b = at / 60, t = at % 60;
    const Seen want = {{t % 5, t / 5 % 4, t / 20},
                       {b % 3, b / 3 % 2, b / 6},
                       {5, 4, 3},
                       {3, 2, 2}};
    EXPECT_TRUE(
        std::equal(&want.thread[0], &want.thread[0] + 12, &found[at].thread[0]))
        << at;
  }
  const auto ran = values(order);
  EXPECT_EQ(std::set<int>(ran.begin(), ran.end()).size(), size_t{720});
  // One block in flight: the threads of each in no usual order.
  for (int i = 0; i < total; ++i) EXPECT_EQ(ran[i] / 60, ran[i / 60 * 60] / 60);
  EXPECT_FALSE(std::is_sorted(ran.begin(), ran.begin() + 60));
}

TEST_F(LaunchTest, TheSeedDecidesTheOrder) {
  const auto order_with = [&](uint64_t seed) {
    emulator::set_seed(seed);
    const auto seen = array<Seen>(16 * 64);
    const auto order = array<int>(16 * 64);
    const auto counter = array(std::vector<int>{0});
    launch(index_kernel, dim3(16), dim3(64), 0, *stream, seen.data(),
           order.data(), counter.data());
    return values(order);
  };
  std::set<int> first_blocks;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto order = order_with(seed);
    EXPECT_EQ(order, order_with(seed));
    EXPECT_NE(order, order_with(seed + 1));
    first_blocks.insert(order[0] / 64);
  }
  EXPECT_GT(first_blocks.size(), size_t{5});
}

// Each block adds to what its neighbour left, which is right in only one order
// of blocks.
__global__ void neighbour_kernel(int* sums) {
  const unsigned block = blockIdx.x;
  sums[block + 1] = sums[block] + 1;
}

TEST_F(LaunchTest, ADependenceOnTheOrderOfBlocksIsAWrongResult) {
  const std::vector<int> in_order = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  std::set<std::vector<int>> results;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    emulator::set_seed(seed);
    const auto sums = array(std::vector<int>(9));
    launch(neighbour_kernel, 8, 1, 0, *stream, sums.data());
    EXPECT_NE(values(sums), in_order) << seed;
    results.insert(values(sums));
  }
  // Rotations and reversals of one fixed order would give 16.
  EXPECT_GT(results.size(), size_t{16});
}

// Runs in a process of its own, where nothing has asked for the seed before.
TEST(SeedDeathTest, IsOfTheEnvironmentFirst) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto first_order = [] {
    const auto device = make_cuda_device(0);
    const auto stream = device->make_stream();
    const Buffer seen(*device, 64 * int64_t{sizeof(Seen)});
    const Buffer order(*device, 64 * 4), counter(*device, 4);
    device->fill_zero(counter.data(), 4, *stream);
    launch(index_kernel, 1, 64, 0, *stream, seen.as<Seen>(), order.as<int>(),
           counter.as<int>());
    std::vector<int> host(64);
    device->copy(host.data(), order.data(), 64 * 4, *stream);
    return host;
  };
  setenv("SYNCOPATE_EMULATOR_SEED", "77", 1);
  EXPECT_EXIT(
      {
        const auto of_environment = first_order();
        emulator::set_seed(77);
        const bool is_same = first_order() == of_environment;
        emulator::set_seed(1);
        std::_Exit(is_same && first_order() != of_environment ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
  setenv("SYNCOPATE_EMULATOR_SEED", "7x", 1);
  EXPECT_EXIT(
      {
        try {
          first_order();
        } catch (const Error& error) {
          std::fputs(error.what(), stderr);
          std::_Exit(static_cast<int>(error.code()));
        }
      },
      ::testing::ExitedWithCode(65), "SYNCOPATE_EMULATOR_SEED: 7x: not a");
  unsetenv("SYNCOPATE_EMULATOR_SEED");
  GTEST_FLAG_SET(death_test_style, "fast");
}

__global__ void fill_kernel(float* out, int64_t elems, float value) {
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at < elems) out[at] = value;
}

TEST_F(LaunchTest, ArgumentsAreConvertedToTheParameters) {
  const auto out = array<float>(3);
  launch(fill_kernel, 1, 4, 0, *stream, out.data(), 3, 2.5);
  EXPECT_EQ(values(out), std::vector<float>(3, 2.5f));
}

template <typename T>
__global__ void typed_kernel(T* out) {
  out[threadIdx.x] = from_f32<T>(1.0f);
  if (threadIdx.x == 2) __syncthreads();
}

TEST_F(LaunchTest, NoBlocksRunNothing) {
  launch(fill_kernel, 0, 4, 0, *stream, nullptr, 3, 0);
  launch(fill_kernel, dim3(1, 0), 4, 0, *stream, nullptr, 3, 0);
  launch(fill_kernel, dim3(1, 1, 0), 4, 0, *stream, nullptr, 3, 0);
}

TEST_F(LaunchTest, LimitsOfALaunchAreErrorsWithTheKernelsName) {
  const auto refused = [&](dim3 grid, dim3 block, int64_t shared_bytes) {
    return error_of([&] {
      launch(fill_kernel, grid, block, shared_bytes, *stream, nullptr, 0, 0);
    });
  };
  const std::string threads = refused(1, 1025, 0);
  EXPECT_TRUE(has(threads, "::fill_kernel: blocks of (1025,1,1) threads"));
  EXPECT_TRUE(has(refused(1, 0, 0), "(0,1,1) threads"));
  EXPECT_TRUE(has(refused(1, dim3(1, 1, 65), 0), "(1,1,65) threads"));
  EXPECT_TRUE(has(refused(dim3(1, 65536), 1, 0), "a grid of (1,65536,1)"));
  EXPECT_TRUE(has(refused(dim3(1, 1, 65536), 1, 0), "a grid of (1,1,65536)"));
  EXPECT_TRUE(has(refused(0x80000000u, 1, 0), "a grid of (2147483648,1,1)"));
  EXPECT_TRUE(has(refused(1, 1, 166913), "166913 bytes of shared memory"));
  EXPECT_TRUE(has(refused(1, 1, -1), "-1 bytes of shared memory"));
}

TEST_F(LaunchTest, NamesOfTemplatesAreInReports) {
  const auto out = array<Bf16>(4);
  const std::string line = error_of(
      [&] { launch(typed_kernel<Bf16>, 1, 4, 0, *stream, out.data()); });
  EXPECT_TRUE(has(line, "typed_kernel<syncopate::Bf16>, block (0,0,0)"));
}

__global__ void throwing_kernel(int thrower) {
  if (static_cast<int>(threadIdx.x) == thrower) throw std::runtime_error("oh");
  __syncthreads();
}

TEST_F(LaunchTest, AnExceptionInAKernelIsReported) {
  const std::string line =
      error_of([&] { launch(throwing_kernel, 1, 64, 0, *stream, 7); });
  EXPECT_TRUE(has(line, "throwing_kernel, block (0,0,0), thread (7,0,0)"));
  EXPECT_TRUE(has(line, "threw: oh"));
  // What failed leaves nothing behind.
  launch(throwing_kernel, 2, 64, 0, *stream, -1);
}

TEST(Bf16Conversion, HasTheBitsOfTensors) {
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 4099) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    EXPECT_EQ(from_f32<Bf16>(value).bits, to_bf16(value).bits) << bits;
  }
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Bf16 half{static_cast<uint16_t>(bits)};
    EXPECT_EQ(std::bit_cast<uint32_t>(to_f32(half)),
              std::bit_cast<uint32_t>(to_float(half)));
  }
}

TEST(Bf16Conversion, RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(from_f32<Bf16>(1.0f).bits, 0x3F80);
  EXPECT_EQ(from_f32<Bf16>(1.0f + 0x1p-8f).bits, 0x3F80);       // tie: even
  EXPECT_EQ(from_f32<Bf16>(1.0f + 0x1.8p-7f).bits, 0x3F82);     // tie: up
  EXPECT_EQ(from_f32<Bf16>(1.0f + 0x1.0002p-8f).bits, 0x3F81);  // above it
  EXPECT_EQ(from_f32<Bf16>(3.4e38f).bits, 0x7F80);              // infinity
  for (const uint32_t bits : {0x7F800001u, 0xFF800001u, 0x7FFFFFFFu}) {
    const float nan = to_f32(from_f32<Bf16>(std::bit_cast<float>(bits)));
    EXPECT_TRUE(std::isnan(nan)) << bits;
  }
  EXPECT_EQ(from_f32<float>(1.5f), 1.5f);
  EXPECT_EQ(to_f32(1.5f), 1.5f);
}

TEST(Rsqrt, IsOneOverTheRoot) {
  EXPECT_FLOAT_EQ(rsqrtf(16.0f), 0.25f);
}

}  // namespace
}  // namespace syncopate::test
