// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3", SC11), keyed by (seed, purpose).
//
// A value is a pure function of key and counter, so data order, augmentation
// and dropout do not depend on the number of workers or threads, and
// checkpoints need not store generator state.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace syncopate {

using Philox4 = std::array<uint32_t, 4>;

// The bijection itself: ten rounds.
Philox4 philox4x32(Philox4 counter, std::array<uint32_t, 2> key);

// What a stream of random numbers is for; part of the key.
enum class Purpose : uint32_t {
  kInit = 1,
  kDataOrder = 2,
  kPartition = 3,
  kAugment = 4,
  kDropout = 5,
  kSynthetic = 6,
  kQuantize = 7,
  kStraggler = 8,
  kStepTime = 9,
  kTies = 10,
  kTest = 99,
};

// A sequence of draws at (seed, purpose, a, b). Cheap: construct it where
// needed.
class Rng {
 public:
  Rng(uint64_t seed, Purpose purpose, uint64_t a = 0, uint64_t b = 0);

  uint32_t next_u32();
  uint64_t next_u64();
  double uniform();                // [0, 1), 53 bits
  uint64_t below(uint64_t bound);  // [0, bound), without bias; bound > 0
  double normal();                 // N(0, 1) by Box-Muller; consumes four words

  // Returns this generator advanced by 4 * `blocks` words without drawing them.
  // Requires that a multiple of four words has been drawn.
  Rng after(int64_t blocks) const;

 private:
  std::array<uint32_t, 2> key_;
  Philox4 counter_;
  Philox4 block_{};
  int used_ = 4;
};

// Returns a random permutation of 0..n-1 (Fisher-Yates), a function of the Rng.
std::vector<int64_t> permutation(int64_t n, Rng rng);

}  // namespace syncopate
