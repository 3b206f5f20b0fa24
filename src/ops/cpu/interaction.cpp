#include <array>
#include <cstring>

#include "ops/bodies.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/simd.h"

// Rows are short (10 elements in the paper) and unaligned, so a row is split
// into vectors of 16, 8, 4, 2 and 1 elements. Most of the time goes into
// fetching rows from memory, hence they are prefetched some look-ups ahead.

namespace syncopate::cpu {
namespace {

using F8 = float __attribute__((vector_size(32)));
using F4 = float __attribute__((vector_size(16)));
using F2 = float __attribute__((vector_size(8)));

template <typename V>
[[gnu::always_inline]] inline V get(const float* from) {
  V value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}

template <typename V>
[[gnu::always_inline]] inline void put(float* to, V value) {
  __builtin_memcpy(to, &value, sizeof value);
}

// Calls body(V(), at) so that vectors V at positions `at` cover each element of
// a row of D exactly once, from left to right.
template <typename Body>
[[gnu::always_inline]] inline void for_row(int64_t D, const Body& body) {
  int64_t at = 0;
  for (; at + 16 <= D; at += 16) body(F16{}, at);
  const auto rest = [&]<typename V>(V) {
    constexpr int64_t kWidth = sizeof(V) / sizeof(float);
    if (at + kWidth > D) return;
    body(V{}, at);
    at += kWidth;
  };
  rest(F8{});
  rest(F4{});
  rest(F2{});
  rest(float{});
}

enum class For : uint8_t { kReading, kWriting };

template <For kUse>
[[gnu::always_inline]] inline void ask_for(const float* from, int64_t elems) {
  constexpr int64_t kLineElems = 16;
  for (int64_t i = 0; i < elems; i += kLineElems)
    __builtin_prefetch(from + i, kUse == For::kWriting);
  __builtin_prefetch(from + elems - 1, kUse == For::kWriting);
}

// Prefetch distance in look-ups: about as many cache lines as a core can have
// in flight.
constexpr int64_t kAhead = 24;

// All gradients of a row are added in order by one task. To that end, (row,
// gradient) records are distributed over buckets of rows, in order of (n, f)
// within each, and a task takes consecutive buckets. Sixteen neighbouring rows
// (a cache line of `first`) share a bucket and the next sixteen go to the next,
// so the few popular rows of a small field are spread over buckets.
constexpr int64_t kBuckets = 256;

int64_t bucket_of(int32_t row) {
  return (row >> 4) & (kBuckets - 1);
}

// Uses as many chunks of samples as threads: the order within a bucket is that
// of (n, f) however the samples are split.
struct Partition {
  int64_t chunks = 0;
  int64_t* places = nullptr;  // (chunks, kBuckets): place of the next record
  std::array<int64_t, kBuckets + 1> begins{};  // of each bucket
};

Partition partition_rows(Context& context,
                         const int32_t* rows,
                         int64_t N,
                         int64_t F,
                         int64_t R) {
  Partition parts{.chunks = context.threads()};
  parts.places = scratch<int64_t>(context, parts.chunks * (kBuckets + 1), 1);
  int64_t* const strays = parts.places + parts.chunks * kBuckets;
  parallel_for(context, parts.chunks, N * F, [&](int64_t chunk) {
    int64_t* counts = parts.places + chunk * kBuckets;
    std::fill_n(counts, kBuckets, int64_t{0});
    int64_t outside = 0;
    const int64_t end = N * (chunk + 1) / parts.chunks * F;
    for (int64_t i = N * chunk / parts.chunks * F; i < end; ++i) {
      outside += rows[i] < 0 || rows[i] >= R;
      ++counts[bucket_of(rows[i])];
    }
    strays[chunk] = outside;
  });
  int64_t before = 0;
  for (int64_t bucket = 0; bucket < kBuckets; ++bucket) {
    parts.begins[static_cast<size_t>(bucket)] = before;
    for (int64_t chunk = 0; chunk < parts.chunks; ++chunk) {
      int64_t& place = parts.places[chunk * kBuckets + bucket];
      before += std::exchange(place, before);
    }
  }
  parts.begins.back() = before;
  for (int64_t chunk = 0; chunk < parts.chunks; ++chunk)
    CHECK_MSG(strays[chunk] == 0, "{} rows outside of {}", strays[chunk], R);
  return parts;
}

// A record holds the row index, dscore[n] and dv[n, f].
constexpr int64_t kRecordHead = 2;

// Writes the records of one sample. `to` (F) is scratch.
void scatter_sample(float** to,
                    float* records,
                    int64_t* places,
                    const int32_t* rows,  // (F)
                    const float* dx,      // (F, D)
                    const float* x,       // (F, D)
                    float dscore,
                    int64_t F,
                    int64_t D) {
  for (int64_t f = 0; f < F; ++f) {
    float* record = records + places[bucket_of(rows[f])]++ * (D + kRecordHead);
    std::memcpy(record, rows + f, sizeof rows[f]);
    record[1] = dscore;
    to[f] = record + kRecordHead;
  }
  for_row(D, [&]<typename V>(V, int64_t at) {
    V sum{};
    for (int64_t f = 0; f < F; ++f) sum += get<V>(x + f * D + at);
    for (int64_t f = 0; f < F; ++f) {
      const int64_t i = f * D + at;
      put<V>(to[f] + at, get<V>(dx + i) + dscore * (sum - get<V>(x + i)));
    }
  });
}

void add_records(float* dembedding,
                 float* dfirst,
                 const TouchedBlocks& touched,
                 const float* records,
                 int64_t begin,
                 int64_t end,
                 int64_t D) {
  const int64_t stride = D + kRecordHead;
  const auto row_of = [&](int64_t i) {
    int32_t row;
    std::memcpy(&row, records + i * stride, sizeof row);
    return row;
  };
  for (int64_t i = begin; i < end; ++i) {
    const int64_t soon = row_of(std::min(i + kAhead, end - 1));
    ask_for<For::kWriting>(dembedding + soon * D, D);
    ask_for<For::kWriting>(dfirst + soon, 1);
    const int64_t row = row_of(i);
    const float* record = records + i * stride;
    dfirst[row] += record[1];
    float* to = dembedding + row * D;
    mark_touched(touched, dfirst + row, 1);
    mark_touched(touched, to, D);
    for_row(D, [&]<typename V>(V, int64_t at) {
      put<V>(to + at, get<V>(to + at) + get<V>(record + kRecordHead + at));
    });
  }
}

// Assigns x and returns the score of one sample.
float look_up(float* x,             // (F, D)
              const int32_t* rows,  // (F), followed by `following` more
              int64_t following,
              const float* embedding,
              const float* first,
              float score,
              int64_t F,
              int64_t D) {
  for (int64_t f = 0; f < F; ++f) {
    const int64_t soon = rows[std::min(f + kAhead, F + following - 1)];
    ask_for<For::kReading>(embedding + soon * D, D);
    ask_for<For::kReading>(first + soon, 1);
    score += first[rows[f]];
  }
  float pairs = 0;
  for_row(D, [&]<typename V>(V, int64_t at) {
    V sum{}, squares{};
    for (int64_t f = 0; f < F; ++f) {
      const V v = get<V>(embedding + int64_t{rows[f]} * D + at);
      put<V>(x + f * D + at, v);
      sum += v;
      squares += v * v;
    }
    float terms[sizeof(V) / sizeof(float)];
    put<V>(terms, sum * sum - squares);
    for (const float term : terms) pairs += term;
  });
  return score + 0.5f * pairs;
}

}  // namespace

void interaction_forward(Context& context,
                         Tensor x,
                         Tensor score,
                         ConstTensor rows,
                         ConstTensor embedding,
                         ConstTensor first,
                         ConstTensor bias) {
  const int64_t N = rows.shape[0], F = rows.shape[1];
  const int64_t R = embedding.shape[0], D = embedding.shape[1];
  const auto* row = static_cast<const int32_t*>(rows.data);
  int64_t outside = 0;
  for (int64_t i = 0; i < N * F; ++i) outside += row[i] < 0 || row[i] >= R;
  CHECK_MSG(outside == 0, "{} rows outside of {}", outside, R);
  float* to = x.f32();
  float* scores = score.f32();
  const float* table = embedding.f32();
  const float* weights = first.f32();
  const float start = bias.f32()[0];
  constexpr int64_t kPiece = 32;  // samples
  parallel_for(context, ceil_div(N, kPiece), N * F * D, [&](int64_t piece) {
    const int64_t end = std::min(N, (piece + 1) * kPiece);
    for (int64_t n = piece * kPiece; n < end; ++n)
      scores[n] = look_up(to + n * F * D, row + n * F, (end - 1 - n) * F, table,
                          weights, start, F, D);
  });
}

void interaction_backward(Context& context,
                          Tensor dembedding,
                          Tensor dfirst,
                          Tensor dbias,
                          ConstTensor dx,
                          ConstTensor dscore,
                          ConstTensor rows,
                          ConstTensor x,
                          const TouchedBlocks& touched) {
  const int64_t N = rows.shape[0], F = rows.shape[1];
  const int64_t R = dembedding.shape[0], D = dembedding.shape[1];
  const auto* row = static_cast<const int32_t*>(rows.data);
  const Partition parts = partition_rows(context, row, N, F, R);
  auto* records = scratch<float>(context, N * F * (D + kRecordHead));
  auto* targets = scratch<float*>(context, parts.chunks * F, 2);
  const float* upstream = dscore.f32();
  parallel_for(context, parts.chunks, N * F * D, [&](int64_t chunk) {
    const int64_t end = N * (chunk + 1) / parts.chunks;
    for (int64_t n = N * chunk / parts.chunks; n < end; ++n)
      scatter_sample(targets + chunk * F, records,
                     parts.places + chunk * kBuckets, row + n * F,
                     dx.f32() + n * dx.shape[1], x.f32() + n * F * D,
                     upstream[n], F, D);
  });
  // Tasks hold about equally many records; the split does not affect a row's
  // sum.
  const auto begin_of = [&](int64_t task) {
    return *std::lower_bound(parts.begins.begin(), parts.begins.end(),
                             N * F * task / parts.chunks);
  };
  parallel_for(context, parts.chunks, N * F * D, [&](int64_t task) {
    add_records(dembedding.f32(), dfirst.f32(), touched, records,
                begin_of(task), begin_of(task + 1), D);
  });
  double sum = 0;
  for (int64_t n = 0; n < N; ++n) sum += static_cast<double>(upstream[n]);
  dbias.f32()[0] += static_cast<float>(sum);
}

}  // namespace syncopate::cpu
