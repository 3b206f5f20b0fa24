// Naive contents of compressed ranges in double precision, directly from the
// formulas of ops/quantize.h and ops/combine.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "reference/reference.h"

namespace syncopate::reference {

// Where each tensor begins, followed by the length of the range.
using Begins = std::vector<int64_t>;
using Words = std::vector<uint32_t>;

// Codes of `bits` each, bit by bit: 32 codes fill `bits` words.
Words pack(const Words& codes, int64_t bits);
Words unpack(const Words& words, int64_t bits, int64_t count);

struct Sign {
  Words codes;    // 1: negative
  Values scales;  // per tensor
  Values q;
};
Sign sign(const Begins& begins, const Values& x);

struct Qsgd {
  int64_t levels;
  bool is_biased;
};
// Returns c for a tensor of d elements.
double qsgd_factor(const Qsgd& qsgd, int64_t d);

struct Quantized {
  Words codes;          // sign bit, and above it the level
  Values norms;         // per tensor
  Values to_threshold;  // fraction - u: rounded up if positive
};
// u: per element, in [0, 1).
Quantized qsgd_encode(const Qsgd& qsgd,
                      const Begins& begins,
                      const Values& x,
                      const Values& u);
Values qsgd_decode(const Qsgd& qsgd,
                   const Begins& begins,
                   const Words& codes,
                   const Values& norms);

// Orthonormalises the columns of p (rows, rank) by modified Gram-Schmidt.
Values orthonormalize(const Values& p, int64_t rows, int64_t rank);

}  // namespace syncopate::reference
