// Loops over independent tasks on the context's OpenMP threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "ops/context.h"

namespace syncopate::cpu {

inline int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Calls body(task) for every task in [0, tasks). Tasks must not throw and must
// not depend on which thread runs them, so results are independent of threads.
// `work_elems` is the total number of elements touched: waking a team costs
// some microseconds, so little work stays on the calling thread.
template <typename Body>
void parallel_for(Context& context,
                  int64_t tasks,
                  int64_t work_elems,
                  const Body& body) {
  constexpr int64_t kWorthATeam = 16384;  // elements: about 5 us on one core
  if (context.threads() == 1 || tasks <= 1 || work_elems < kWorthATeam) {
    for (int64_t task = 0; task < tasks; ++task) body(task);
    return;
  }
#pragma omp parallel for num_threads(context.threads()) schedule(static)
  for (int64_t task = 0; task < tasks; ++task) body(task);
}

// Calls body(begin, end) for consecutive pieces of [0, n), whose bounds do not
// depend on the number of threads.
template <typename Body>
void parallel_pieces(Context& context, int64_t n, const Body& body) {
  constexpr int64_t kPiece = 8192;  // elements: 32 KiB of fp32
  parallel_for(context, ceil_div(n, kPiece), n, [&](int64_t piece) {
    body(piece * kPiece, std::min(n, (piece + 1) * kPiece));
  });
}

}  // namespace syncopate::cpu
