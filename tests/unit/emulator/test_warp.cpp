// Warp primitives against a plain computation, and lanes that cannot meet.
#include <random>

#include "unit/emulator/emulated.h"

namespace syncopate::test {
namespace {

using WarpTest = Emulated;

constexpr unsigned kAllLanes = 0xFFFFFFFFu;

enum class Kind { kIndex, kXor, kDown };

template <typename T>
__global__ void shuffle_kernel(T* out,
                               const T* in,
                               Kind kind,
                               int operand,
                               int width) {
  const T value = in[threadIdx.x];
  T got{};
  if (kind == Kind::kIndex) got = __shfl_sync(kAllLanes, value, operand, width);
  if (kind == Kind::kXor)
    got = __shfl_xor_sync(kAllLanes, value, operand, width);
  if (kind == Kind::kDown)
    got = __shfl_down_sync(kAllLanes, value, operand, width);
  out[threadIdx.x] = got;
}

// CUDA C++ Programming Guide, "Warp Shuffle Functions": width splits a warp
// into segments; an index is taken modulo it, and a lane whose source would
// lie beyond its segment keeps its own value.
int expected_source(Kind kind, int lane, int operand, int width) {
  const int segment = lane / width * width;
  if (kind == Kind::kIndex) return segment + operand % width;
  const int source = kind == Kind::kXor ? (lane ^ operand) : lane + operand;
  return source < segment + width ? source : lane;
}

template <typename T>
class ShuffleTest : public Emulated {};
using Shuffled = ::testing::Types<float, double, int, unsigned, int64_t>;
TYPED_TEST_SUITE(ShuffleTest, Shuffled);

TYPED_TEST(ShuffleTest, GivesTheSourceLanesValue) {
  constexpr int kThreads = 96;
  std::mt19937 random(7);
  std::vector<TypeParam> host(kThreads);
  for (auto& value : host)
    value = static_cast<TypeParam>(static_cast<double>(random()) * 0.37 - 1e8);
  const auto in = this->array(host);
  const auto out = this->template array<TypeParam>(kThreads);
  for (const Kind kind : {Kind::kIndex, Kind::kXor, Kind::kDown})
    for (const int width : {32, 16, 4, 1})
      for (const int operand : {0, 1, 3, 16, 31}) {
        launch(shuffle_kernel<TypeParam>, 1, kThreads, 0, *this->stream,
               out.data(), in.data(), kind, operand, width);
        const auto got = this->values(out);
        for (int at = 0; at < kThreads; ++at) {
          const int lane = at % 32;
          const int source = expected_source(kind, lane, operand, width);
          EXPECT_EQ(got[at], host[at - lane + source])
              << static_cast<int>(kind) << ' ' << width << ' ' << operand;
        }
      }
}

__global__ void own_source_kernel(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  out[lane] = __shfl_sync(kAllLanes, lane * 10, (lane * 7 + 3) % 32);
}

TEST_F(WarpTest, EachLaneMayReadAnother) {
  const auto out = array<int>(32);
  launch(own_source_kernel, 1, 32, 0, *stream, out.data());
  const auto got = values(out);
  for (int lane = 0; lane < 32; ++lane)
    EXPECT_EQ(got[lane], (lane * 7 + 3) % 32 * 10);
}

__global__ void vote_kernel(unsigned* votes, int* any, int* all, unsigned yes) {
  const unsigned thread = threadIdx.x;
  const int predicate = static_cast<int>(yes >> (thread % 32) & 1) * 5;
  votes[thread] = __ballot_sync(kAllLanes, predicate);
  any[thread] = __any_sync(kAllLanes, predicate);
  all[thread] = __all_sync(kAllLanes, predicate);
}

TEST_F(WarpTest, VotesCountEveryLane) {
  const auto votes = array<unsigned>(64);
  const auto any = array<int>(64), all = array<int>(64);
  for (const unsigned yes : {0u, 1u, 0x80000000u, 0xDEADBEEFu, 0xFFFFFFFFu}) {
    launch(vote_kernel, 1, 64, 0, *stream, votes.data(), any.data(), all.data(),
           yes);
    EXPECT_EQ(values(votes), std::vector<unsigned>(64, yes));
    EXPECT_EQ(values(any), std::vector<int>(64, yes != 0));
    EXPECT_EQ(values(all), std::vector<int>(64, yes == 0xFFFFFFFFu));
  }
}

__global__ void half_warp_kernel(int* out) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int value = lane;
  if (lane < 16) {
    for (int step = 8; step > 0; step /= 2)
      value += __shfl_xor_sync(0x0000FFFFu, value, step);
  } else {
    for (int step = 8; step > 0; step /= 2)
      value += __shfl_xor_sync(0xFFFF0000u, value, step);
  }
  out[threadIdx.x] = value;
}

TEST_F(WarpTest, GroupsWithMasksOfTheirOwnMeetApart) {
  const auto out = array<int>(64);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    emulator::set_seed(seed);
    launch(half_warp_kernel, 1, 64, 0, *stream, out.data());
    const auto got = values(out);
    for (int at = 0; at < 64; ++at)
      EXPECT_EQ(got[at], at % 32 < 16 ? 120 : 376);
  }
}

// Lane 0 writes, the warp's others read after __syncwarp().
template <bool kHasBarrier>
__global__ void warp_broadcast_kernel(int* out) {
  int* shared = shared_memory<int>();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x % 32 == 0) shared[warp] = 100 + warp;
  if constexpr (kHasBarrier) __syncwarp();
  out[threadIdx.x] = shared[warp];
}

TEST_F(WarpTest, SyncwarpOrdersMemory) {
  const auto out = array<int>(64);
  int num_wrong = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    emulator::set_seed(seed);
    launch(warp_broadcast_kernel<true>, 1, 64, 8, *stream, out.data());
    const auto right = values(out);
    for (int at = 0; at < 64; ++at) EXPECT_EQ(right[at], 100 + at / 32);
    launch(warp_broadcast_kernel<false>, 1, 64, 8, *stream, out.data());
    num_wrong += values(out) != right;
  }
  EXPECT_EQ(num_wrong, 20);
}

__global__ void exited_lane_kernel() {
  if (threadIdx.x == 37) return;
  __ballot_sync(kAllLanes, 1);
}

TEST_F(WarpTest, AnExitedLaneInTheMaskIsReported) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    emulator::set_seed(seed);
    const std::string line =
        error_of([&] { launch(exited_lane_kernel, 2, 64, 0, *stream); });
    EXPECT_TRUE(has(line, "exited_lane_kernel, block ("));
    EXPECT_TRUE(has(line, "(37,0,0)"));
    EXPECT_TRUE(has(line, "has exited"));
    EXPECT_TRUE(has(line, "__ballot_sync(mask 0xffffffff) (test_warp.cpp:"));
  }
}

__global__ void masked_kernel(unsigned mask, int source) {
  __shfl_sync(mask, 1, source);
}

TEST_F(WarpTest, LanesThatTheBlockDoesNotHaveAreReported) {
  const std::string line =
      error_of([&] { launch(masked_kernel, 1, 40, 0, *stream, kAllLanes, 0); });
  EXPECT_TRUE(has(line, "lane 8: its block has no such thread"));
  launch(masked_kernel, 1, 8, 0, *stream, 0xFFu, 0);
}

TEST_F(WarpTest, ACallerOutsideOfItsMaskIsReported) {
  const std::string line =
      error_of([&] { launch(masked_kernel, 1, 32, 0, *stream, 0xFFFFu, 0); });
  EXPECT_TRUE(has(line, "which does not name its lane"));
}

__global__ void foreign_source_kernel() {
  if (threadIdx.x < 16) __shfl_sync(0xFFFFu, 1, 20);
}

TEST_F(WarpTest, ReadingALaneOutsideOfTheMaskIsReported) {
  const std::string line =
      error_of([&] { launch(foreign_source_kernel, 1, 32, 0, *stream); });
  EXPECT_TRUE(has(line, "reads lane 20 in __shfl_sync(mask 0x0000ffff)"));
}

__global__ void crossed_kernel() {
  if (threadIdx.x % 2 == 0) {
    __syncwarp();
  } else {
    __any_sync(kAllLanes, 1);
  }
}

TEST_F(WarpTest, LanesAtUnlikePrimitivesAreReported) {
  const std::string line =
      error_of([&] { launch(crossed_kernel, 1, 32, 0, *stream); });
  EXPECT_TRUE(has(line, "__syncwarp(mask 0xffffffff)"));
  EXPECT_TRUE(has(line, "__any_sync(mask 0xffffffff)"));
}

// 0 waits for 1, 1 for 2, 2 for 0: no two name each other.
__global__ void circle_kernel() {
  if (threadIdx.x == 0) __syncwarp(0b0011);
  if (threadIdx.x == 1) __syncwarp(0b0110);
  if (threadIdx.x == 2) __syncwarp(0b0101);
  if (threadIdx.x > 2) __syncwarp(0xFFFFFFF8u);
}

TEST_F(WarpTest, ACircleOfWaitingLanesIsADeadlock) {
  const std::string line =
      error_of([&] { launch(circle_kernel, 1, 32, 0, *stream); });
  EXPECT_TRUE(has(line,
                  "circle_kernel, block (0,0,0), thread (0,0,0): waits "
                  "at __syncwarp(mask 0x00000003)"));
  EXPECT_TRUE(has(line, "for ever"));
}

__global__ void barrier_or_warp_kernel() {
  if (threadIdx.x == 5) {
    __syncthreads();
  } else {
    __syncwarp();
  }
}

TEST_F(WarpTest, ALaneAtABarrierIsNotInAWarpPrimitive) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    emulator::set_seed(seed);
    const std::string line =
        error_of([&] { launch(barrier_or_warp_kernel, 1, 32, 0, *stream); });
    EXPECT_TRUE(has(line, "thread (5,0,0)"));
    EXPECT_TRUE(has(line, "waits at __syncthreads() (test_warp.cpp:"));
  }
}

__global__ void wide_kernel(int width) {
  __shfl_sync(kAllLanes, 1.0f, 0, width);
}

TEST_F(WarpTest, AWidthThatIsNoPowerOfTwoIsReported) {
  for (const int width : {0, 3, 64, -1}) {
    const std::string line =
        error_of([&] { launch(wide_kernel, 1, 32, 0, *stream, width); });
    EXPECT_TRUE(has(line, "with a width of " + std::to_string(width)));
  }
}

}  // namespace
}  // namespace syncopate::test
