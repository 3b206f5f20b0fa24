// How the emulator runs a kernel: the threads of a block are lanes that take
// turns on fibers and meet in barriers and warp primitives.
//
// Of the blocks in flight (emulator.h) the lanes that can run are taken in a
// seeded random order; one is left only when it waits or ends, or at an
// atomic operation. A lane that never waits costs no change of fiber.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <string>

// The names of CUDA's own headers, which are not needed here.
struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1)
      : x(x_), y(y_), z(z_) {}
};
inline constinit thread_local uint3 threadIdx{};
inline constinit thread_local uint3 blockIdx{};
inline constinit thread_local dim3 blockDim{};
inline constinit thread_local dim3 gridDim{};

namespace syncopate {

class Stream;
inline constexpr int kWarpSize = 32;

namespace emulator {

struct Launch {
  const void* kernel = nullptr;  // address of the kernel function
  dim3 grid, block;
  int64_t shared_bytes = 0;
  std::function<void()> thread;  // calls the kernel once
};

// Checks the launch as CUDA would and gives it to the stream.
void enqueue(Stream& stream, Launch launch);

// Throws Error(kBadInput) where the variable is set to no number.
uint64_t number_of_environment(const char* name, uint64_t otherwise);

// What a lane of the running block does; each ends the launch with
// Error(kInternal) where lanes cannot meet.
enum class WarpOp : uint8_t {
  kSync,
  kShuffle,
  kShuffleXor,
  kShuffleDown,
  kBallot,
  kAny,
  kAll,
  kMultiply,
  kLoadMatrices,
};
const char* name_of(WarpOp op);

struct WarpCall {
  WarpOp op;
  uint32_t mask;
  uint64_t value = 0;  // of a shuffle; a predicate otherwise
  int operand = 0;     // source lane, xor mask or distance
  int width = 32;      // of a shuffle's segments
  // Of what a warp computes as a whole: called once, with the address that is
  // each lane's `value`.
  void (*together)(void* const (&lanes)[kWarpSize]) = nullptr;
  std::source_location site;
};

void block_barrier(std::source_location site);
uint64_t meet_in_warp(const WarpCall& call);
std::byte* shared_memory_of_block();
// Before an atomic operation: other lanes may come first.
void pass_turn();

// Copies to the block's shared memory that a lane starts and later waits for;
// until then 0xFF bytes are there. Addresses must be multiples of `bytes`. If
// not `is_in`, zeros are copied. wait_for_copies() leaves the `num_pending`
// latest of the groups that commit_copies() has closed.
void start_copy(void* to, const void* from, int bytes, bool is_in);
void commit_copies();
void wait_for_copies(int num_pending);

// For the report of a fault in the calling thread: the kernel, block and
// thread running, or empty outside of kernels; whether `address` is the guard
// of the block's shared memory or of the running fiber's stack.
std::string running_lane();
std::string guard_hit(const std::byte* address);

}  // namespace emulator
}  // namespace syncopate
