#include "ops/embedding.h"

#include <cmath>

#include "cuda/norm_rows.cuh"
#include "cuda/pack.cuh"
#include "cuda/sort.h"
#include "ops/bodies.h"

namespace syncopate::cuda {

constexpr unsigned kEmbeddingThreads = 256;
constexpr int kMaxTables = 3;

struct Lookups {
  const float* table[kMaxTables];  // (V, D)
  const int32_t* ids[kMaxTables];  // (tokens)
  int64_t V[kMaxTables];
  int count;
};

template <typename T, int V>
__global__ void __launch_bounds__(kEmbeddingThreads)
    embedding_forward_kernel(T* y,  // (tokens, D)
                             Lookups lookups,
                             int64_t tokens,
                             int64_t D) {
  const int64_t packs = D / V, items = tokens * packs;
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t item = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       item < items; item += threads) {
    const int64_t t = item / packs, d = item % packs * V;
    float sum[V] = {};
    // Constant indices: parameters indexed dynamically would be copied.
    for (int input = 0; input < kMaxTables; ++input) {
      if (input >= lookups.count) break;
      const int64_t id = lookups.ids[input][t];
      const bool is_known = id >= 0 && id < lookups.V[input];
      float row[V];
      load_channels(row, lookups.table[input] + (is_known ? id * D : 0) + d);
      for (int e = 0; e < V; ++e) sum[e] += is_known ? row[e] : NAN;
    }
    Pack<T, V> pack;
    for (int e = 0; e < V; ++e) pack.set(e, sum[e]);
    pack.store(y + item * V);
  }
}

// Sorted tokens are divided into chunks of a fixed size. The tokens of one id
// within one chunk form a piece and are summed together. A piece with all of
// its id's tokens goes to the table. The others, at most two per chunk, are
// stored and combined later.
constexpr int kPieceTokens = 32;
constexpr int kRowsInFlight = 4;
struct IdChunks {
  SortedKeys tokens;
  int64_t n, V, D;
  __host__ __device__ int64_t count() const {
    return ceil_div(n, kPieceTokens);
  }
  // Whether tokens i - 1 and i have the same id.
  __device__ __forceinline__ bool goes_on(int64_t i) const {
    return i > 0 && i < n && tokens.keys[i - 1] == tokens.keys[i];
  }
};

enum PieceKind {
  kLater,
  kFirst,
  kPieceKinds
};  // begun in an earlier chunk; begun here

template <typename T, int V>
__global__ void __launch_bounds__(kEmbeddingThreads)
    embedding_pieces_kernel(float* dtable,  // (V, D)
                            float* pieces,  // (chunks, kinds, D)
                            const T* dy,    // (n, D)
                            IdChunks ids) {
  const int64_t d =
      (int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * int64_t{V};
  if (d >= ids.D) return;
  for (int64_t chunk = blockIdx.x; chunk < ids.count(); chunk += gridDim.x) {
    const int64_t begin = chunk * kPieceTokens;
    const int64_t end = lesser(begin + kPieceTokens, ids.n);
    bool is_later = ids.goes_on(begin);
    float sum[V] = {};
    for (int64_t i = begin; i < end; i += kRowsInFlight) {
      Pack<T, V> rows[kRowsInFlight];
      for (int row = 0; row < kRowsInFlight; ++row)
        rows[row] = Pack<T, V>::load(
            dy + ids.tokens.places[lesser(i + row, end - 1)] * ids.D + d);
      for (int row = 0; row < kRowsInFlight && i + row < end; ++row) {
        for (int e = 0; e < V; ++e) sum[e] += rows[row].get(e);
        const int64_t next = i + row + 1;
        const bool goes_on = ids.goes_on(next);
        if (next < end && goes_on) continue;
        const int64_t id = ids.tokens.keys[next - 1];
        const bool is_piece = is_later || goes_on;
        float* to = is_piece ? pieces + (chunk * kPieceKinds +
                                         (is_later ? kLater : kFirst)) *
                                            ids.D
                             : dtable + id * ids.D;
        for (int e = 0; e < V; ++e) {
          if (is_piece)
            to[d + e] = sum[e];
          else if (id < ids.V)
            to[d + e] += sum[e];
          sum[e] = 0;
        }
        is_later = false;
      }
    }
  }
}

// For chunks in which an id begins but does not end: adds all its pieces in
// order.
__global__ void __launch_bounds__(kEmbeddingThreads)
    embedding_join_kernel(float* dtable, const float* pieces, IdChunks ids) {
  const int64_t d = int64_t{blockIdx.y} * blockDim.x + threadIdx.x;
  if (d >= ids.D) return;
  for (int64_t chunk = blockIdx.x; chunk < ids.count(); chunk += gridDim.x) {
    const int64_t begin = chunk * kPieceTokens, end = begin + kPieceTokens;
    if (!ids.goes_on(end)) continue;
    const int64_t id = ids.tokens.keys[end];
    if (id >= ids.V || (ids.goes_on(begin) && ids.tokens.keys[begin] == id))
      continue;
    float sum = pieces[(chunk * kPieceKinds + kFirst) * ids.D + d];
    int64_t next = chunk;
    do {
      ++next;
      sum += pieces[(next * kPieceKinds + kLater) * ids.D + d];
    } while (ids.goes_on((next + 1) * kPieceTokens) &&
             ids.tokens.keys[(next + 1) * kPieceTokens] == id);
    dtable[id * ids.D + d] += sum;
  }
}

void embedding_forward(Context& context,
                       Tensor y,
                       std::span<const EmbeddingInput> inputs) {
  const int64_t tokens = y.shape[0], D = y.shape[1];
  Lookups lookups{};
  lookups.count = static_cast<int>(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    lookups.table[i] = inputs[i].table.f32();
    lookups.ids[i] = static_cast<const int32_t*>(inputs[i].ids.data);
    lookups.V[i] = inputs[i].table.shape[0];
  }
  with_pack(y.dtype, D, {y.data}, [&](auto pack) {
    using P = decltype(pack);
    using T = typename P::Elem;
    launch(embedding_forward_kernel<T, P::kCount>,
           dim3(grid_for(tokens * (D / P::kCount), kEmbeddingThreads)),
           dim3(kEmbeddingThreads), 0, context.stream(),
           static_cast<T*>(y.data), lookups, tokens, D);
  });
}

void embedding_backward(Context& context,
                        Tensor dtable,
                        ConstTensor dy,
                        ConstTensor ids) {
  const int64_t n = dy.shape[0], V = dtable.shape[0], D = dtable.shape[1];
  const IdChunks chunks{
      sort_by_key(context, static_cast<const int32_t*>(ids.data), n, V), n, V,
      D};
  auto* pieces = static_cast<float*>(context.scratch(
      chunks.count() * kPieceKinds * D * int64_t{sizeof(float)}));
  // Adjacent threads take adjacent columns of a row.
  const auto launch_over = [&](int64_t columns, auto kernel,
                               const auto&... args) {
    const int64_t threads = lesser<int64_t>(
        ceil_div(columns, kWarpSize) * kWarpSize, kEmbeddingThreads);
    launch(kernel,
           dim3(grid_for(chunks.count(), 1),
                static_cast<unsigned>(ceil_div(columns, threads))),
           dim3(static_cast<unsigned>(threads)), 0, context.stream(), args...,
           chunks);
  };
  with_pack(dy.dtype, D, {dy.data}, [&](auto pack) {
    using P = decltype(pack);
    using T = typename P::Elem;
    launch_over(D / P::kCount, embedding_pieces_kernel<T, P::kCount>,
                dtable.f32(), pieces, static_cast<const T*>(dy.data));
  });
  launch_over(D, embedding_join_kernel, dtable.f32(),
              static_cast<const float*>(pieces));
}

}  // namespace syncopate::cuda
