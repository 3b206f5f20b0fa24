#include "base/rng.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/shuffle.h"

namespace syncopate {

Philox4 philox4x32(Philox4 c, std::array<uint32_t, 2> k) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = kMultiplier0 * c[0];
    const uint64_t p1 = kMultiplier1 * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0],
         static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1],
         static_cast<uint32_t>(p0)};
    k[0] += kWeyl0;
    k[1] += kWeyl1;
  }
  return c;
}

// The counter holds the low word of the draw count, all of `a` and the low word
// of `b`; the key mixes seed, purpose and the high word of `b`.
Rng::Rng(uint64_t seed, Purpose purpose, uint64_t a, uint64_t b)
    : key_{static_cast<uint32_t>(seed),
           static_cast<uint32_t>(seed >> 32) ^
               (static_cast<uint32_t>(purpose) << 24) ^
               static_cast<uint32_t>(b >> 32)},
      counter_{0, static_cast<uint32_t>(b), static_cast<uint32_t>(a),
               static_cast<uint32_t>(a >> 32)} {}

uint32_t Rng::next_u32() {
  if (used_ == 4) {
    block_ = philox4x32(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[used_++];
}

uint64_t Rng::next_u64() {
  const uint64_t low = next_u32();
  return low | (static_cast<uint64_t>(next_u32()) << 32);
}

double Rng::uniform() {
  return static_cast<double>(next_u64() >> 11) * 0x1.0p-53;
}

uint64_t Rng::below(uint64_t bound) {
  // Reject the tail that would bias towards small results. It is shorter than
  // the bound, and few draws need the division that finds where it begins.
  uint64_t draw = next_u64();
  while (draw > UINT64_MAX - bound && draw >= UINT64_MAX - UINT64_MAX % bound)
    draw = next_u64();
  return draw % bound;
}

double Rng::normal() {
  const double u = 1.0 - uniform();  // (0, 1], so the logarithm is finite
  return std::sqrt(-2.0 * std::log(u)) *
         std::cos(2.0 * std::numbers::pi * uniform());
}

Rng Rng::after(int64_t blocks) const {
  CHECK(used_ == 4 && blocks >= 0);
  Rng later = *this;
  CHECK_MSG(blocks <= UINT32_MAX - later.counter_[0],
            "{} blocks: more random numbers than a stream has", blocks);
  later.counter_[0] += static_cast<uint32_t>(blocks);
  return later;
}

std::vector<int64_t> permutation(int64_t n, Rng rng) {
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), int64_t{0});
  shuffle(order, rng);
  return order;
}

}  // namespace syncopate
