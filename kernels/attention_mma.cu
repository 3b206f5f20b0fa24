// Attention on tensor cores: a thread block holds 64 queries (keys, for their
// gradients) of one head of one sequence and walks over the tiles of the other
// side. The next tile is copied while the current one is processed.
#include <cfloat>
#include <cmath>

#include <cuda/approximate.cuh>

#include "cuda/attention_mma.h"
#include "cuda/attention_mma_tile.cuh"
#include "cuda/attention_place.cuh"
#include "ops/context.h"

namespace syncopate::cuda {

// Starts to copy `count` keys and values, side by side, from those at `keys`.
template <typename Tile>
__device__ __forceinline__ void copy_keys_and_values(Bf16* to,
                                                     const Bf16* keys,
                                                     int count,
                                                     int64_t H,
                                                     int D) {
  copy_rows<Tile, Tile::kOthers>(to, keys, 3 * H, count, D);
  copy_rows<Tile, Tile::kOthers>(to + Tile::kOtherElems, keys + H, 3 * H, count,
                                 D);
}

// --- forward ----------------------------------------------------------------

// scores = exp(scale * scores - highest) in the first `keys` columns, 0 beyond;
// raises `highest` and rescales total and sum accordingly. A thread's total
// covers only its own columns.
template <typename Tile>
__device__ __forceinline__ void soften(MmaScores<Tile>& scores,
                                       float (&highest)[2],
                                       float (&total)[2],
                                       MmaOutputs<Tile>& sum,
                                       int keys,
                                       float scale) {
  if (keys < Tile::kOthers)
    for (int n = 0; n < MmaScores<Tile>::kCount; ++n)
      for (int i = 0; i < 4; ++i)
        if (n * 8 + fragment_column(i) >= keys) scores.at[n][i] = -INFINITY;
  const float factor = scale * kLog2E;
  for (int h = 0; h < 2; ++h) {
    float top = highest[h];
    for (int n = 0; n < MmaScores<Tile>::kCount; ++n)
      for (int i = 2 * h; i < 2 * h + 2; ++i) top = fmaxf(top, scores.at[n][i]);
    top = row_max(top);
    const float rescale = approximate_exp2((highest[h] - top) * factor);
    highest[h] = top;
    const float shift = -top * factor;
    float part = 0;
    for (int n = 0; n < MmaScores<Tile>::kCount; ++n)
      for (int i = 2 * h; i < 2 * h + 2; ++i) {
        scores.at[n][i] =
            approximate_exp2(fmaf(scores.at[n][i], factor, shift));
        part += scores.at[n][i];
      }
    total[h] = total[h] * rescale + part;
    for (int n = 0; n < MmaOutputs<Tile>::kCount; ++n)
      for (int i = 2 * h; i < 2 * h + 2; ++i) sum.at[n][i] *= rescale;
  }
}

template <typename Tile>
__global__ void __launch_bounds__(kMmaThreads)
    attention_forward_mma_kernel(Bf16* out,        // (T, H)
                                 float* lse,       // (T, heads)
                                 uint32_t* kept,   // kept_shape(), or null
                                 const Bf16* qkv,  // (T, 3 H)
                                 const int32_t* offsets,
                                 AttentionSizes sizes,
                                 AttentionDropout dropout) {
  const AttentionPlace place(sizes, offsets, kMmaRows);
  if (place.first_row >= place.length) return;
  const int64_t stride = 3 * sizes.H();
  const int D = static_cast<int>(sizes.D);
  const int length = static_cast<int>(place.length);
  const int rows = length - static_cast<int>(place.first_row);
  Bf16* queries = shared_memory<Bf16>();
  Bf16* buffers = queries + Tile::kRowElems;  // two of keys and values
  const Bf16* const first_key = qkv + place.wide(sizes, 1, 0);
  const auto copy_others = [&](int key) {
    copy_keys_and_values<Tile>(buffer_of<Tile>(buffers, key),
                               first_key + key * stride, length - key,
                               sizes.H(), D);
    commit_copies();
  };
  copy_rows<Tile, kMmaRows>(
      queries, qkv + place.wide(sizes, 0, place.first_row), stride, rows, D);
  copy_others(0);
  const ScoreDraws draws(dropout, place);
  const auto drawn_query = draws.of_query(place.first_row + drawn_row());
  MmaOutputs<Tile> sum{};
  float highest[2] = {-FLT_MAX, -FLT_MAX}, total[2] = {};
  for (int key = 0; key < length; key += Tile::kOthers) {
    await_others<Tile>(key, length, copy_others);
    const Bf16* keys = buffer_of<Tile>(buffers, key);
    MmaScores<Tile> scores = multiply_by_rows<Tile>(queries, keys);
    soften<Tile>(scores, highest, total, sum, length - key, sizes.scale);
    if (kept != nullptr) {
      const uint32_t drawn = kept_in_query_rows<Tile>(draws, drawn_query, key);
      kept[kept_place(place, sizes, place.tile, key / Tile::kOthers) +
           threadIdx.x] = drawn;
      for (int n = 0; n < MmaScores<Tile>::kCount; ++n)
        for (int i = 0; i < 4; ++i)
          if (!is_kept(drawn, n, i)) scores.at[n][i] = 0;
    }
    add_weighted_rows<Tile>(sum, scores, keys + Tile::kOtherElems);
  }
  float factor[2];
  for (int h = 0; h < 2; ++h) {
    total[h] = row_sum(total[h]);
    factor[h] = dropout.kept_scale / total[h];
    const int row = warp_row() + lane_group() + 8 * h;
    if (lane_of_warp() % 4 == 0 && row < rows)
      lse[place.stats(sizes, place.first_row + row)] =
          highest[h] * sizes.scale + logf(total[h]);
  }
  store_rows<Tile>(out + place.narrow(sizes, place.first_row), sizes.H(),
                   queries, sum, factor, rows, D);
}

// --- backward ---------------------------------------------------------------
//
// As in attention.cu: with delta = sum_d dout out, dS = P (dP - delta).

// dQ: rows are queries.
template <typename Tile>
__global__ void __launch_bounds__(kMmaThreads)
    attention_dqueries_mma_kernel(Bf16* dqkv,          // (T, 3 H)
                                  const Bf16* dout,    // (T, H)
                                  const Bf16* qkv,     // (T, 3 H)
                                  const float* lse,    // (T, heads)
                                  const float* delta,  // (T, heads)
                                  const uint32_t* kept,
                                  const int32_t* offsets,
                                  AttentionSizes sizes,
                                  float kept_scale) {
  const AttentionPlace place(sizes, offsets, kMmaRows);
  if (place.first_row >= place.length) return;
  const int64_t stride = 3 * sizes.H();
  const int D = static_cast<int>(sizes.D);
  const int length = static_cast<int>(place.length);
  const int rows = length - static_cast<int>(place.first_row);
  Bf16* queries = shared_memory<Bf16>();
  Bf16* douts = queries + Tile::kRowElems;
  Bf16* buffers = douts + Tile::kRowElems;  // two of keys and values
  const Bf16* const first_key = qkv + place.wide(sizes, 1, 0);
  const auto copy_others = [&](int key) {
    copy_keys_and_values<Tile>(buffer_of<Tile>(buffers, key),
                               first_key + key * stride, length - key,
                               sizes.H(), D);
    commit_copies();
  };
  copy_rows<Tile, kMmaRows>(
      queries, qkv + place.wide(sizes, 0, place.first_row), stride, rows, D);
  copy_rows<Tile, kMmaRows>(douts, dout + place.narrow(sizes, place.first_row),
                            sizes.H(), rows, D);
  copy_others(0);
  float row_lse[2], row_delta[2];  // the first in powers of 2
  for (int h = 0; h < 2; ++h) {
    const int row = warp_row() + lane_group() + 8 * h;
    const int64_t at = place.stats(sizes, place.first_row + row);
    row_lse[h] = row < rows ? lse[at] * kLog2E : 0;
    row_delta[h] = row < rows ? delta[at] : 0;
  }
  MmaOutputs<Tile> sum{};
  for (int key = 0; key < length; key += Tile::kOthers) {
    await_others<Tile>(key, length, copy_others);
    const Bf16* keys = buffer_of<Tile>(buffers, key);
    MmaScores<Tile> scores = multiply_by_rows<Tile>(queries, keys);
    const MmaScores<Tile> dshares =
        multiply_by_rows<Tile>(douts, keys + Tile::kOtherElems);
    // The bits of these keys are the lowest, also if kOthers is less than 64.
    const uint32_t drawn =
        kept != nullptr
            ? kept[kept_place(place, sizes, place.tile, key / kMmaRows) +
                   threadIdx.x] >>
                  key % kMmaRows / 2
            : ~0u;
    for (int n = 0; n < MmaScores<Tile>::kCount; ++n)
      for (int i = 0; i < 4; ++i) {
        const float share = approximate_exp2(
            fmaf(scores.at[n][i], sizes.scale * kLog2E, -row_lse[i / 2]));
        const float factor = is_kept(drawn, n, i) ? kept_scale : 0;
        scores.at[n][i] =
            share * fmaf(dshares.at[n][i], factor, -row_delta[i / 2]);
      }
    // Keys beyond the last get no weight. The formula would give them an
    // infinite one if all scores are far below zero.
    if (length - key < Tile::kOthers)
      for (int n = 0; n < MmaScores<Tile>::kCount; ++n)
        for (int i = 0; i < 4; ++i)
          if (n * 8 + fragment_column(i) >= length - key) scores.at[n][i] = 0;
    add_weighted_rows<Tile>(sum, scores, keys);
  }
  store_rows<Tile>(dqkv + place.wide(sizes, 0, place.first_row), stride,
                   queries, sum, {sizes.scale, sizes.scale}, rows, D);
}

// What the gradients of keys need of a tile of queries besides their rows.
template <typename Tile>
struct QueryStats {
  float lse[Tile::kOthers], delta[Tile::kOthers];
  uint32_t kept[2 * Tile::kOthers];
};

// Starts to copy that of the queries from `query`: zero beyond the last one.
template <typename Tile>
__device__ __forceinline__ void copy_stats(QueryStats<Tile>& to,
                                           const float* lse,
                                           const float* delta,
                                           const uint32_t* kept,
                                           const AttentionPlace& place,
                                           const AttentionSizes& sizes,
                                           int query) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= 2 * Tile::kOthers) return;
  const int column = thread % Tile::kOthers;
  const bool is_lse = thread < Tile::kOthers;
  const float* from = is_lse ? lse : delta;
  const bool is_in = query + column < place.length;
  copy_async<4>((is_lse ? to.lse : to.delta) + column,
                is_in ? from + place.stats(sizes, query + column) : from,
                is_in);
  if (kept == nullptr) return;
  kept += kept_place(place, sizes, query / kMmaRows, place.tile) +
          query % kMmaRows * 2;
  copy_async<4>(to.kept + thread, kept + thread, true);
}

// dK and dV: rows are keys. Queries beyond the last add nothing, because they,
// their dout, log-sum-exp and delta are zero.
template <typename Tile>
__global__ void __launch_bounds__(kMmaThreads)
    attention_dkeys_mma_kernel(Bf16* dqkv,          // (T, 3 H)
                               const Bf16* dout,    // (T, H)
                               const Bf16* qkv,     // (T, 3 H)
                               const float* lse,    // (T, heads)
                               const float* delta,  // (T, heads)
                               const uint32_t* kept,
                               const int32_t* offsets,
                               AttentionSizes sizes,
                               float kept_scale) {
  const AttentionPlace place(sizes, offsets, kMmaRows);
  if (place.first_row >= place.length) return;
  const int64_t stride = 3 * sizes.H();
  const int D = static_cast<int>(sizes.D);
  const int length = static_cast<int>(place.length);
  const int rows = length - static_cast<int>(place.first_row);
  Bf16* keys = shared_memory<Bf16>();
  Bf16* values = keys + Tile::kRowElems;
  Bf16* buffers = values + Tile::kRowElems;  // two of queries and douts
  auto* two_stats =
      reinterpret_cast<QueryStats<Tile>*>(buffers + 4 * Tile::kOtherElems);
  const Bf16* const first_query = qkv + place.wide(sizes, 0, 0);
  const Bf16* const first_dout = dout + place.narrow(sizes, 0);
  const auto copy_others = [&](int query) {
    const int count = length - query;
    Bf16* queries = buffer_of<Tile>(buffers, query);
    copy_rows<Tile, Tile::kOthers>(queries, first_query + query * stride,
                                   stride, count, D);
    copy_rows<Tile, Tile::kOthers>(queries + Tile::kOtherElems,
                                   first_dout + query * sizes.H(), sizes.H(),
                                   count, D);
    copy_stats(two_stats[query / Tile::kOthers % 2], lse, delta, kept, place,
               sizes, query);
    commit_copies();
  };
  copy_rows<Tile, kMmaRows>(keys, qkv + place.wide(sizes, 1, place.first_row),
                            stride, rows, D);
  copy_rows<Tile, kMmaRows>(values, qkv + place.wide(sizes, 2, place.first_row),
                            stride, rows, D);
  copy_others(0);
  MmaOutputs<Tile> dkeys{}, dvalues{};
  for (int query = 0; query < length; query += Tile::kOthers) {
    await_others<Tile>(query, length, copy_others);
    const Bf16* queries = buffer_of<Tile>(buffers, query);
    const Bf16* douts = queries + Tile::kOtherElems;
    const QueryStats<Tile>& stats = two_stats[query / Tile::kOthers % 2];
    MmaScores<Tile> shares = multiply_by_rows<Tile>(keys, queries);
    MmaScores<Tile> dscores = multiply_by_rows<Tile>(values, douts);
    const uint32_t drawn =
        kept != nullptr ? kept_in_key_rows<Tile>(stats.kept) : ~0u;
    for (int n = 0; n < MmaScores<Tile>::kCount; ++n)
      for (int i = 0; i < 4; ++i) {
        const int column = n * 8 + fragment_column(i);
        const bool is_in = is_kept_in_key_rows(drawn, n, i);
        const float share =
            approximate_exp2(fmaf(shares.at[n][i], sizes.scale * kLog2E,
                                  -stats.lse[column] * kLog2E));
        shares.at[n][i] = is_in ? share : 0;
        dscores.at[n][i] =
            share * fmaf(dscores.at[n][i], is_in ? kept_scale : 0,
                         -stats.delta[column]);
      }
    add_weighted_rows<Tile>(dvalues, shares, douts);
    add_weighted_rows<Tile>(dkeys, dscores, queries);
  }
  store_rows<Tile>(dqkv + place.wide(sizes, 1, place.first_row), stride, keys,
                   dkeys, {sizes.scale, sizes.scale}, rows, D);
  store_rows<Tile>(dqkv + place.wide(sizes, 2, place.first_row), stride, values,
                   dvalues, {kept_scale, kept_scale}, rows, D);
}

namespace {

// kOthers of the tiles. With the smaller one, the accumulators of two gradients
// of 128 columns fit into registers, and those of 64 columns into so few that a
// multiprocessor holds three blocks instead of two (5% faster on an H100).
constexpr int kOthers = 64, kFewOthers = 32;

// Calls body(tile) with the tile that fits D; only its type matters.
template <int kOthersAbove32, typename Body>
void with_tile(int64_t D, const Body& body) {
  CHECK_MSG(D <= kMostHeadColumnsOnGpu, "heads of {} columns", D);
  if (D <= 32)
    body(MmaTile<32, kOthers>());
  else if (D <= 64)
    body(MmaTile<64, kOthersAbove32>());
  else
    body(MmaTile<128, kOthersAbove32>());
}

// Returns the bits of dropout, null where there is none.
template <typename Word, typename Args>
Word* kept_bits(const Args& args) {
  return args.dropout.p > 0 ? static_cast<Word*>(args.kept.data) : nullptr;
}

bool has_whole_packs(const ConstTensor& out,
                     int64_t heads,
                     std::initializer_list<const void*> memory) {
  bool fits = out.dtype == DType::kBf16 && out.shape[1] / heads % 16 == 0;
  for (const void* address : memory)
    fits = fits && reinterpret_cast<uintptr_t>(address) % 16 == 0;
  return fits;
}

}  // namespace

bool can_use_mma(const AttentionForwardArgs& args) {
  return has_whole_packs(args.out, args.heads, {args.out.data, args.qkv.data});
}

bool can_use_mma(const AttentionBackwardArgs& args) {
  return has_whole_packs(
      args.dout, args.heads,
      {args.dqkv.data, args.dout.data, args.qkv.data, args.out.data});
}

void attention_forward_mma(Context& context, const AttentionForwardArgs& args) {
  AttentionSizes sizes = sizes_of(args.out, args.heads);
  const unsigned blocks = grid_of(sizes, args.sequences, kMmaRows);
  with_tile<kOthers>(sizes.D, [&](auto tile) {
    using Tile = decltype(tile);
    launch(attention_forward_mma_kernel<Tile>, dim3(blocks), dim3(kMmaThreads),
           Tile::bytes(1), context.stream(), static_cast<Bf16*>(args.out.data),
           args.lse.f32(), kept_bits<uint32_t>(args),
           static_cast<const Bf16*>(args.qkv.data), args.sequences.offsets,
           sizes, dropout_of(args.dropout));
  });
}

void attention_backward_mma(Context& context,
                            const AttentionBackwardArgs& args,
                            const float* delta) {
  AttentionSizes sizes = sizes_of(args.dout, args.heads);
  const unsigned blocks = grid_of(sizes, args.sequences, kMmaRows);
  const auto run = [&](auto kernel, int64_t shared_bytes) {
    launch(kernel, dim3(blocks), dim3(kMmaThreads), shared_bytes,
           context.stream(), static_cast<Bf16*>(args.dqkv.data),
           static_cast<const Bf16*>(args.dout.data),
           static_cast<const Bf16*>(args.qkv.data), args.lse.f32(), delta,
           kept_bits<const uint32_t>(args), args.sequences.offsets, sizes,
           dropout_of(args.dropout).kept_scale);
  };
  const auto run_dqueries = [&](auto tile) {
    using Tile = decltype(tile);
    run(attention_dqueries_mma_kernel<Tile>, Tile::bytes(2));
  };
  // A block may have 99 KiB on GPUs of compute capability 8.6, 8.9 and 12.0.
  if (sizes.D <= 64)
    with_tile<kOthers>(sizes.D, run_dqueries);
  else
    with_tile<kFewOthers>(sizes.D, run_dqueries);
  with_tile<kFewOthers>(sizes.D, [&](auto tile) {
    using Tile = decltype(tile);
    run(attention_dkeys_mma_kernel<Tile>,
        Tile::bytes(2) + 2 * int64_t{sizeof(QueryStats<Tile>)});
  });
}

}  // namespace syncopate::cuda
