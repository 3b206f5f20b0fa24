// Loops over independent tasks on the context's OpenMP threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <span>

#include "ops/context.h"
#include "ops/cpu/simd.h"

namespace syncopate::cpu {

inline int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Returns room for `elems` values until the op ends (Context::scratch).
template <typename T>
T* scratch(Context& context, int64_t elems, int index = 0) {
  return static_cast<T*>(context.scratch(elems * int64_t{sizeof(T)}, index));
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

// Calls body(lanes, i) for i = 0, 16, ... below n, as for_vectors() does.
template <typename Body>
void parallel_vectors(Context& context, int64_t n, const Body& body) {
  parallel_pieces(context, n, [&](int64_t begin, int64_t end) {
    for_vectors(begin, end, body);
  });
}

// Returns what body(begin, end) returns for each chunk of [0, n), in order and
// in scratch 0. `work_elems` is as in parallel_for.
template <typename Body>
auto results_of_chunks(Context& context,
                       int64_t n,
                       int64_t chunk_elems,
                       int64_t work_elems,
                       const Body& body) {
  using Result = decltype(body(n, n));
  const int64_t chunks = ceil_div(n, chunk_elems);
  auto* results = scratch<Result>(context, chunks);
  parallel_for(context, chunks, work_elems, [&](int64_t chunk) {
    const int64_t begin = chunk * chunk_elems;
    results[chunk] = body(begin, std::min(n, begin + chunk_elems));
  });
  return std::span(results, static_cast<size_t>(chunks));
}

}  // namespace syncopate::cpu
