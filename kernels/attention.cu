// Blocked attention: a thread block holds one tile of queries (of keys, for
// their gradients) of one head of one sequence and walks over the tiles of the
// other side. Products are computed in fp32 from tiles in shared memory.
#include <cfloat>
#include <cmath>

#include "cuda/attention_mma.h"
#include "cuda/attention_place.cuh"
#include "cuda/attention_tile.cuh"
#include "ops/bodies.h"

namespace syncopate::cuda {

// Which of a thread's scores dropout keeps: bit i * kColumns + j for row i and
// column j.
class KeptScores {
 public:
  __device__ KeptScores(const AttentionDropout& dropout,
                        const AttentionPlace& place)
      : draws_(dropout, place) {}

  // Rows are queries from `query`; columns are keys from `key` in dealt order.
  template <typename Tile>
  __device__ uint32_t in_query_rows(int64_t query, int64_t key) const {
    if (draws_.keeps_all()) return ~0u;
    constexpr uint32_t kMask = (1u << Tile::kColumns) - 1;
    const int64_t first_key = key + team_thread() * Tile::kColumns;
    uint32_t kept = 0;
    for (int i = 0; i < Tile::kRows; ++i) {
      const auto row = draws_.of_query(query + team() * Tile::kRows + i);
      kept |= (draws_.four_keys(row, first_key) >> (first_key % 4) & kMask)
              << (i * Tile::kColumns);
    }
    return kept;
  }
  // Rows are keys from `key`; columns are queries from `query` in plain order.
  template <typename Tile>
  __device__ uint32_t in_key_rows(int64_t query, int64_t key) const {
    if (draws_.keeps_all()) return ~0u;
    const int64_t first_key = key + team() * Tile::kRows;
    uint32_t kept = 0;
    for (int j = 0; j < Tile::kColumns; ++j) {
      const auto column =
          draws_.of_query(query + j * kTeamThreads + team_thread());
      for (int i = 0; i < Tile::kRows; i += 4) {
        const uint32_t four = draws_.four_keys(column, first_key + i);
        for (int k = 0; k < 4; ++k)
          kept |= (four >> k & 1) << ((i + k) * Tile::kColumns + j);
      }
    }
    return kept;
  }

 private:
  ScoreDraws draws_;
};

template <typename Tile>
__device__ __forceinline__ bool is_kept(uint32_t kept, int row, int column) {
  return (kept >> (row * Tile::kColumns + column) & 1) != 0;
}

// --- forward ----------------------------------------------------------------

template <typename Tile, int kPack, typename T>
__global__ void __launch_bounds__(kAttentionThreads)
    attention_forward_kernel(T* out,        // (T, H)
                             float* lse,    // (T, heads)
                             const T* qkv,  // (T, 3 H)
                             const int32_t* offsets,
                             AttentionSizes sizes,
                             AttentionDropout dropout) {
  const AttentionPlace place(sizes, offsets, Tile::kSide);
  if (place.first_row >= place.length) return;
  const int64_t D = sizes.D, stride = 3 * sizes.H();
  const int64_t rows = place.length - place.first_row;
  float* queries = shared_memory<float>();
  float* others = queries + Tile::kSide * Tile::kStride;  // keys, then values
  float* shares = others + Tile::kSide * Tile::kStride;
  load_tile<Tile, RowOrder::kPlain, kPack>(
      queries, qkv + place.wide(sizes, 0, place.first_row), stride, rows, D,
      sizes.scale);
  const KeptScores kept(dropout, place);
  Outputs<Tile> sum{};
  float highest[Tile::kRows], total[Tile::kRows];
  for (int i = 0; i < Tile::kRows; ++i) {
    highest[i] = -FLT_MAX;
    total[i] = 0;
  }
  for (int64_t key = 0; key < place.length; key += Tile::kSide) {
    const int64_t keys = place.length - key;
    load_tile<Tile, RowOrder::kDealt, kPack>(
        others, qkv + place.wide(sizes, 1, key), stride, keys, D, 1);
    __syncthreads();
    Scores<Tile> scores =
        multiply_rows<Tile>(queries, others, static_cast<int>(D));
    __syncthreads();
    load_tile<Tile, RowOrder::kDealt, kPack>(
        others, qkv + place.wide(sizes, 2, key), stride, keys, D, 1);
    for (int i = 0; i < Tile::kRows; ++i) {
      float top = highest[i];
      for (int j = 0; j < Tile::kColumns; ++j) {
        if (team_thread() * Tile::kColumns + j >= keys)
          scores.at[i][j] = -INFINITY;
        top = fmaxf(top, scores.at[i][j]);
      }
      top = team_max(top);
      const float rescale = expf(highest[i] - top);
      highest[i] = top;
      float part = 0;
      for (int j = 0; j < Tile::kColumns; ++j) {
        scores.at[i][j] = expf(scores.at[i][j] - top);
        part += scores.at[i][j];
      }
      total[i] = total[i] * rescale + team_sum(part);
      for (int c = 0; c < Tile::kOutputs; ++c) sum.at[i][c] *= rescale;
    }
    const uint32_t keep =
        kept.template in_query_rows<Tile>(place.first_row, key);
    for (int i = 0; i < Tile::kRows; ++i)
      for (int j = 0; j < Tile::kColumns; ++j)
        if (!is_kept<Tile>(keep, i, j)) scores.at[i][j] = 0;
    share_scores<Tile>(shares, scores);
    __syncthreads();
    accumulate<Tile>(sum, shares, others);
    __syncthreads();
  }
  float factor[Tile::kRows];
  for (int i = 0; i < Tile::kRows; ++i) {
    factor[i] = dropout.kept_scale / total[i];
    const int64_t row = team() * Tile::kRows + i;
    if (team_thread() == 0 && row < rows)
      lse[place.stats(sizes, place.first_row + row)] =
          highest[i] + logf(total[i]);
  }
  store_outputs<Tile>(out + place.narrow(sizes, place.first_row), sizes.H(),
                      sum, rows, D, factor);
}

// --- backward ---------------------------------------------------------------
//
// P = exp(S - lse),  dP = keep(dout V^T) / (1 - p),  delta = sum_d dout out
// dS = P (dP - delta),  dQ = dS K / sqrt(D),  dK = dS^T Q / sqrt(D),
// dV = (keep(P) / (1 - p))^T dout

// `lanes`, a power of two, share a token's head.
template <int kPack, typename T>
__global__ void __launch_bounds__(kAttentionThreads)
    attention_delta_kernel(float* delta,   // (T, heads)
                           const T* dout,  // (T, H)
                           const T* out,   // (T, H)
                           int64_t rows,   // T * heads
                           int64_t D,
                           int lanes) {
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t stride = int64_t{gridDim.x} * blockDim.x / lanes;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  // All lanes of a warp iterate equally often, as they shuffle.
  const int64_t rounds = ceil_div(rows, stride);
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t row = round * stride + thread / lanes;
    float sum = 0;
    if (row < rows)
      for (int64_t d = lane * kPack; d < D; d += lanes * kPack) {
        const auto upstream = Pack<T, kPack>::load(dout + row * D + d);
        const auto value = Pack<T, kPack>::load(out + row * D + d);
        for (int i = 0; i < kPack; ++i)
          sum = fmaf(upstream.get(i), value.get(i), sum);
      }
    sum = warp_sum(sum, lanes);
    if (lane == 0 && row < rows) delta[row] = sum;
  }
}

// dQ: rows are queries.
template <typename Tile, int kPack, typename T>
__global__ void __launch_bounds__(kAttentionThreads)
    attention_dqueries_kernel(T* dqkv,             // (T, 3 H)
                              const T* dout,       // (T, H)
                              const T* qkv,        // (T, 3 H)
                              const float* lse,    // (T, heads)
                              const float* delta,  // (T, heads)
                              const int32_t* offsets,
                              AttentionSizes sizes,
                              AttentionDropout dropout) {
  const AttentionPlace place(sizes, offsets, Tile::kSide);
  if (place.first_row >= place.length) return;
  const int64_t D = sizes.D, stride = 3 * sizes.H();
  const int64_t rows = place.length - place.first_row;
  constexpr int kTileElems = Tile::kSide * Tile::kStride;
  float* queries = shared_memory<float>();
  float* douts = queries + kTileElems;
  float* keys = douts + kTileElems;
  float* values = keys + kTileElems;
  float* dscores = values + kTileElems;
  load_tile<Tile, RowOrder::kPlain, kPack>(
      queries, qkv + place.wide(sizes, 0, place.first_row), stride, rows, D,
      sizes.scale);
  load_tile<Tile, RowOrder::kPlain, kPack>(
      douts, dout + place.narrow(sizes, place.first_row), sizes.H(), rows, D,
      dropout.kept_scale);
  const KeptScores kept(dropout, place);
  Outputs<Tile> sum{};
  float row_lse[Tile::kRows], row_delta[Tile::kRows], factor[Tile::kRows];
  for (int i = 0; i < Tile::kRows; ++i) {
    const int64_t row = team() * Tile::kRows + i;
    const int64_t at = place.stats(sizes, place.first_row + row);
    row_lse[i] = row < rows ? lse[at] : 0;
    row_delta[i] = row < rows ? delta[at] : 0;
    factor[i] = sizes.scale;
  }
  for (int64_t key = 0; key < place.length; key += Tile::kSide) {
    const int64_t count = place.length - key;
    load_tile<Tile, RowOrder::kDealt, kPack>(
        keys, qkv + place.wide(sizes, 1, key), stride, count, D, 1);
    load_tile<Tile, RowOrder::kDealt, kPack>(
        values, qkv + place.wide(sizes, 2, key), stride, count, D, 1);
    __syncthreads();
    Scores<Tile> scores =
        multiply_rows<Tile>(queries, keys, static_cast<int>(D));
    const Scores<Tile> dshares =
        multiply_rows<Tile>(douts, values, static_cast<int>(D));
    const uint32_t keep =
        kept.template in_query_rows<Tile>(place.first_row, key);
    for (int i = 0; i < Tile::kRows; ++i)
      for (int j = 0; j < Tile::kColumns; ++j) {
        // Keys beyond the last get no weight. The formula would give them an
        // infinite one if all scores are far below zero.
        const bool is_key = team_thread() * Tile::kColumns + j < count;
        const float share = is_key ? expf(scores.at[i][j] - row_lse[i]) : 0;
        const float dshare = is_kept<Tile>(keep, i, j) ? dshares.at[i][j] : 0;
        scores.at[i][j] = share * (dshare - row_delta[i]);
      }
    share_scores<Tile>(dscores, scores);
    accumulate<Tile>(sum, dscores, keys);
    __syncthreads();
  }
  store_outputs<Tile>(dqkv + place.wide(sizes, 0, place.first_row), stride, sum,
                      rows, D, factor);
}

// dK and dV: rows are keys.
template <typename Tile, int kPack, typename T>
__global__ void __launch_bounds__(kAttentionThreads)
    attention_dkeys_kernel(T* dqkv,             // (T, 3 H)
                           const T* dout,       // (T, H)
                           const T* qkv,        // (T, 3 H)
                           const float* lse,    // (T, heads)
                           const float* delta,  // (T, heads)
                           const int32_t* offsets,
                           AttentionSizes sizes,
                           AttentionDropout dropout) {
  const AttentionPlace place(sizes, offsets, Tile::kSide);
  if (place.first_row >= place.length) return;
  const int64_t D = sizes.D, stride = 3 * sizes.H();
  const int64_t rows = place.length - place.first_row;
  constexpr int kTileElems = Tile::kSide * Tile::kStride;
  float* keys = shared_memory<float>();
  float* values = keys + kTileElems;
  float* queries = values + kTileElems;
  float* douts = queries + kTileElems;
  float* shared_scores = douts + kTileElems;
  load_tile<Tile, RowOrder::kPlain, kPack>(
      keys, qkv + place.wide(sizes, 1, place.first_row), stride, rows, D, 1);
  load_tile<Tile, RowOrder::kPlain, kPack>(
      values, qkv + place.wide(sizes, 2, place.first_row), stride, rows, D, 1);
  const KeptScores kept(dropout, place);
  Outputs<Tile> dkeys{}, dvalues{};
  for (int64_t query = 0; query < place.length; query += Tile::kSide) {
    const int64_t count = place.length - query;
    load_tile<Tile, RowOrder::kPlain, kPack>(queries,
                                             qkv + place.wide(sizes, 0, query),
                                             stride, count, D, sizes.scale);
    load_tile<Tile, RowOrder::kPlain, kPack>(
        douts, dout + place.narrow(sizes, query), sizes.H(), count, D,
        dropout.kept_scale);
    __syncthreads();
    Scores<Tile> shares =
        multiply_rows<Tile>(keys, queries, static_cast<int>(D));
    Scores<Tile> dscores =
        multiply_rows<Tile>(values, douts, static_cast<int>(D));
    float column_lse[Tile::kColumns], column_delta[Tile::kColumns];
    for (int j = 0; j < Tile::kColumns; ++j) {
      const int64_t column = j * kTeamThreads + team_thread();
      const int64_t at = place.stats(sizes, query + column);
      // Queries beyond the last get weights of zero.
      column_lse[j] = column < count ? lse[at] : INFINITY;
      column_delta[j] = column < count ? delta[at] : 0;
    }
    const uint32_t keep =
        kept.template in_key_rows<Tile>(query, place.first_row);
    for (int i = 0; i < Tile::kRows; ++i)
      for (int j = 0; j < Tile::kColumns; ++j) {
        const bool is_in = is_kept<Tile>(keep, i, j);
        const float share = expf(shares.at[i][j] - column_lse[j]);
        const float dshare = is_in ? dscores.at[i][j] : 0;
        shares.at[i][j] = is_in ? share : 0;
        dscores.at[i][j] = share * (dshare - column_delta[j]);
      }
    share_scores<Tile>(shared_scores, shares);
    accumulate<Tile>(dvalues, shared_scores, douts);
    share_scores<Tile>(shared_scores, dscores);
    accumulate<Tile>(dkeys, shared_scores, queries);
    __syncthreads();
  }
  float factor[Tile::kRows];
  for (int i = 0; i < Tile::kRows; ++i) factor[i] = 1;
  store_outputs<Tile>(dqkv + place.wide(sizes, 1, place.first_row), stride,
                      dkeys, rows, D, factor);
  store_outputs<Tile>(dqkv + place.wide(sizes, 2, place.first_row), stride,
                      dvalues, rows, D, factor);
}

namespace {

// Calls body(tile) with the tile that fits D; only its type matters. Two tiles
// of 128 plus two others exceed a block's shared memory, so those are shorter.
template <int kLongSide, typename Body>
void with_tile(int64_t D, const Body& body) {
  CHECK_MSG(D <= kMostHeadColumnsOnGpu, "heads of {} columns", D);
  if (D <= 32)
    body(AttentionTile<64, 32>());
  else if (D <= 64)
    body(AttentionTile<64, 64>());
  else
    body(AttentionTile<kLongSide, 128>());
}

}  // namespace

void attention_forward(Context& context, const AttentionForwardArgs& args) {
  AttentionSizes sizes = sizes_of(args.out, args.heads);
  if (args.sequences.tokens == 0) return;
  if (can_use_mma(args)) {
    attention_forward_mma(context, args);
    return;
  }
  with_pack(
      args.out.dtype, sizes.D, {args.out.data, args.qkv.data}, [&](auto pack) {
        using T = typename decltype(pack)::Elem;
        constexpr int kPack = decltype(pack)::kCount;
        with_tile<64>(sizes.D, [&](auto tile) {
          using Tile = decltype(tile);
          const unsigned blocks = grid_of(sizes, args.sequences, Tile::kSide);
          launch(attention_forward_kernel<Tile, kPack, T>, dim3(blocks),
                 dim3(kAttentionThreads), 2 * Tile::kBytes + Tile::kScoreBytes,
                 context.stream(), static_cast<T*>(args.out.data),
                 args.lse.f32(), static_cast<const T*>(args.qkv.data),
                 args.sequences.offsets, sizes, dropout_of(args.dropout));
        });
      });
}

void attention_backward(Context& context, const AttentionBackwardArgs& args) {
  AttentionSizes sizes = sizes_of(args.dout, args.heads);
  if (args.sequences.tokens == 0) return;
  const int64_t rows = args.sequences.tokens * args.heads;
  auto* delta =
      static_cast<float*>(context.scratch(rows * int64_t{sizeof(float)}));
  with_pack(
      args.out.dtype, sizes.D,
      {args.dqkv.data, args.dout.data, args.qkv.data, args.out.data},
      [&](auto pack) {
        using T = typename decltype(pack)::Elem;
        constexpr int kPack = decltype(pack)::kCount;
        const auto* upstream = static_cast<const T*>(args.dout.data);
        const auto* parts = static_cast<const T*>(args.qkv.data);
        const int lanes = lanes_for(ceil_div(sizes.D, kPack));
        launch(attention_delta_kernel<kPack, T>,
               dim3(grid_for(rows, kAttentionThreads / lanes)),
               dim3(kAttentionThreads), 0, context.stream(), delta, upstream,
               static_cast<const T*>(args.out.data), rows, sizes.D, lanes);
        if (can_use_mma(args)) {
          attention_backward_mma(context, args, delta);
          return;
        }
        with_tile<32>(sizes.D, [&](auto tile) {
          using Tile = decltype(tile);
          const unsigned blocks = grid_of(sizes, args.sequences, Tile::kSide);
          for (const auto kernel : {attention_dqueries_kernel<Tile, kPack, T>,
                                    attention_dkeys_kernel<Tile, kPack, T>})
            launch(kernel, dim3(blocks), dim3(kAttentionThreads),
                   4 * Tile::kBytes + Tile::kScoreBytes, context.stream(),
                   static_cast<T*>(args.dqkv.data), upstream, parts,
                   args.lse.f32(), static_cast<const float*>(delta),
                   args.sequences.offsets, sizes, dropout_of(args.dropout));
        });
      });
}

}  // namespace syncopate::cuda
