// Sums over the rows of a batch: in fixed pieces of rows, added in order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "ops/cpu/parallel.h"
#include "ops/cpu/simd.h"

namespace syncopate::cpu {

// Adds to total (elems) the partial sums that body(first, last, part) assigns
// to part (elems) for rows [first, last) of N. `work_elems` is as in
// parallel_for. Uses scratch 2.
template <typename Body>
void sum_over_rows(Context& context,
                   float* total,
                   int64_t N,
                   int64_t elems,
                   int64_t work_elems,
                   const Body& body) {
  constexpr int64_t kFewestRows = 128, kMostPieces = 64;
  const int64_t rows = std::max(kFewestRows, ceil_div(N, kMostPieces));
  const int64_t pieces = ceil_div(N, rows);
  auto* parts = scratch<float>(context, pieces * elems, 2);
  parallel_for(context, pieces, work_elems, [&](int64_t piece) {
    body(piece * rows, std::min(N, (piece + 1) * rows), parts + piece * elems);
  });
  parallel_vectors(context, elems, [&](auto lanes, int64_t i) {
    F16 sum{};
    for (int64_t piece = 0; piece < pieces; ++piece)
      sum += lanes.get(parts + piece * elems + i);
    lanes.put(total + i, lanes.get(total + i) + sum);
  });
}

// db (K) += sum of the rows of dy (N, K).
template <typename T>
void add_column_sums(Context& context,
                     float* db,
                     const T* dy,
                     int64_t N,
                     int64_t K) {
  sum_over_rows(
      context, db, N, K, N * K, [&](int64_t first, int64_t last, float* part) {
        std::fill_n(part, K, 0.0f);
        int64_t n = first;
        for (; n + 4 <= last; n += 4)
          for_vectors(0, K, [&](auto lanes, int64_t k) {
            F16 sum = lanes.get(part + k);
            for (int64_t row = n; row < n + 4; ++row)
              sum += lanes.get(dy + row * K + k);
            lanes.put(part + k, sum);
          });
        for (; n < last; ++n)
          for_vectors(0, K, [&](auto lanes, int64_t k) {
            lanes.put(part + k,
                      lanes.get(part + k) + lanes.get(dy + n * K + k));
          });
      });
}

}  // namespace syncopate::cpu
