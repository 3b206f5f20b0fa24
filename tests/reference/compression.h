// What compressed ranges hold, naively and in double, straight from the
// formulas of ops/quantize.h and ops/combine.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "reference/reference.h"

namespace syncopate::reference {

// Where each tensor begins, and behind them the length of the range.
using Begins = std::vector<int64_t>;
using Words = std::vector<uint32_t>;

// Codes of `bits` each, bit by bit: 32 codes fill `bits` words.
Words pack(const Words& codes, int64_t bits);
Words unpack(const Words& words, int64_t bits, int64_t count);

struct Sign {
  Words codes;    // 1: negative
  Values scales;  // of each tensor
  Values q;
};
Sign sign(const Begins& begins, const Values& x);

struct Qsgd {
  int64_t levels;
  bool is_biased;
};
// c of a tensor of d elements.
double qsgd_factor(const Qsgd& qsgd, int64_t d);

struct Quantized {
  Words codes;          // sign bit, and above it the level
  Values norms;         // of each tensor
  Values to_threshold;  // fraction - u: rounded up where it is positive
};
// u: of each element, in [0, 1).
Quantized qsgd_encode(const Qsgd& qsgd,
                      const Begins& begins,
                      const Values& x,
                      const Values& u);
Values qsgd_decode(const Qsgd& qsgd,
                   const Begins& begins,
                   const Words& codes,
                   const Values& norms);

// Columns of p (rows, rank) by modified Gram-Schmidt.
Values orthonormalize(const Values& p, int64_t rows, int64_t rank);

}  // namespace syncopate::reference
