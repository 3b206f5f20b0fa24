#include "ops/layernorm.h"

#include <cmath>

#include "cuda/norm_rows.cuh"
#include "cuda/pack.cuh"
#include "cuda/reduce.cuh"
#include "cuda/row_pack.cuh"
#include "cuda/token_draws.cuh"
#include "ops/bodies.h"

namespace syncopate::cuda {

// One block per row at a time. Thread `thread` holds packs thread, thread +
// threads, ..., at most kHeld of them, from the first pass to the last. One
// pack fits into the 80 registers that a thread of 768 has; six blocks of 128
// threads are then resident. kManyPacks are in local memory; a thread uses as
// few of them as 1,024 threads allow.
constexpr int kOnePack = 1, kManyPacks = 16;
template <int kHeld>
inline constexpr int kRowThreads = kHeld == kOnePack ? 768 : 1024;

struct RowView {
  int64_t rows, H;
  int packs;
  float share;  // 1 / H
};

template <typename T>
struct LayernormForward {
  T *y, *z;  // z: null if not kept
  float *mean, *rstd;
  const T *x, *residual;  // residual: may be null
  const float *gamma, *beta;
  float eps;
};

template <typename T>
struct LayernormBackward {
  T *dx, *dresidual;  // dresidual: may be null
  const T *dy, *z;
  const float *mean, *rstd, *gamma;
};

// Calls body(held, h) for this thread's packs of a row, h the first channel.
template <int kHeld, int V, typename Body>
__device__ __forceinline__ void for_own_packs(const RowView& view,
                                              const Body& body) {
  for (int held = 0; held < kHeld; ++held) {
    const int pack = static_cast<int>(threadIdx.x + held * blockDim.x);
    if (pack < view.packs) body(held, pack * V);
  }
}

// Stores V channels of partial sums.
template <int V>
__device__ __forceinline__ void store_sums(float* to, const float (&sums)[V]) {
  constexpr int kWide = V % 4 == 0 ? 4 : 1;
  for (int first = 0; first < V; first += kWide) {
    Pack<float, kWide> pack;
    for (int index = 0; index < kWide; ++index)
      pack.elem[index] = sums[first + index];
    pack.store(to + first);
  }
}

// The moments are those of z as stored, which is what backward reads. With many
// packs their values lie in local memory: a thread of 1,024 has 64 registers.
template <typename T, int V, int kHeld>
__global__ void __launch_bounds__(kRowThreads<kHeld>)
    layernorm_forward_kernel(LayernormForward<T> pass,
                             RowView view,
                             TokenDraws draws) {
  using Elems = RowPack<T, V>;
  float gamma[kHeld][V], beta[kHeld][V];
  for_own_packs<kHeld, V>(view, [&](int held, int h) {
    load_channels(gamma[held], pass.gamma + h);
    load_channels(beta[held], pass.beta + h);
  });
  // Two pieces for block_sums.
  float* const first = shared_memory<float>();
  float* const second = first + blockDim.x / kWarpSize;
  for (int64_t t = blockIdx.x; t < view.rows; t += gridDim.x) {
    const int64_t row = t * view.H;
    float values[kHeld][V];
    float sum[1] = {}, squares[1] = {};
    for_own_packs<kHeld, V>(view, [&](int held, int h) {
      float(&value)[V] = values[held];
      const int64_t place = row + h;
      Elems elems = Elems::load(pass.x + place);
      Elems residual = {};
      if (pass.residual != nullptr)
        residual = Elems::load(pass.residual + place);
      for (int e = 0; e < V; ++e) value[e] = elems.get(e);
      draws.drop(value, t, h);
      if (pass.residual != nullptr)
        for (int e = 0; e < V; ++e) value[e] += residual.get(e);
      elems.set(value);
      for (int e = 0; e < V; ++e) {
        value[e] = elems.get(e);
        sum[0] += value[e];
      }
      if (pass.z != nullptr) elems.store(pass.z + place);
    });
    block_sums(sum, first);
    const float mean = sum[0] * view.share;
    for_own_packs<kHeld, V>(view, [&](int held, int) {
      for (int e = 0; e < V; ++e) {
        const float deviation = values[held][e] - mean;
        squares[0] += deviation * deviation;
      }
    });
    block_sums(squares, second);
    const float rstd = 1.0f / sqrtf(squares[0] * view.share + pass.eps);
    if (threadIdx.x == 0) {
      pass.mean[t] = mean;
      pass.rstd[t] = rstd;
    }
    for_own_packs<kHeld, V>(view, [&](int held, int h) {
      float y[V];
      for (int e = 0; e < V; ++e)
        y[e] = (values[held][e] - mean) * rstd * gamma[held][e] + beta[held][e];
      Elems elems;
      elems.set(y);
      elems.store(pass.y + row + h);
    });
  }
}

// With g = gamma dy and n = (z - mean) rstd, means by row:
//   dz = rstd (g - mean(g) - n mean(g n))
// A block takes a chunk of successive rows and sums dy n, dy and, if there are
// three sums, dx as stored over them. A pack of the next row is read as soon as
// this row's is used up, so that reads are in flight during the rest of a row.
// With many packs their values lie in local memory: a thread of 1,024 has 64
// registers.
template <typename T, int V, int kHeld, int kSums>
__global__ void __launch_bounds__(kRowThreads<kHeld>)
    layernorm_backward_kernel(float* partial,  // (chunks, kSums, H)
                              LayernormBackward<T> pass,
                              RowView view,
                              int64_t chunk_rows,
                              TokenDraws draws) {
  using Elems = RowPack<T, V>;
  const int64_t begin = blockIdx.x * chunk_rows;
  const int64_t end = lesser(begin + chunk_rows, view.rows);
  Elems dy[kHeld], z[kHeld];
  const auto load = [&](int held, int64_t place) {
    dy[held] = Elems::load(pass.dy + place);
    z[held] = Elems::load(pass.z + place);
  };
  float gamma[kHeld][V], dgamma[kHeld][V] = {}, dbeta[kHeld][V] = {};
  float dbias[kSums == 3 ? kHeld : 1][V] = {};
  for_own_packs<kHeld, V>(view, [&](int held, int h) {
    load(held, begin * view.H + h);
    load_channels(gamma[held], pass.gamma + h);
  });
  // Two pieces for block_sums, in turn.
  float* shared = shared_memory<float>();
  float* shared_next = shared + 2 * (blockDim.x / kWarpSize);
  int64_t row = begin * view.H;
  for (int64_t t = begin; t < end; ++t, row += view.H) {
    const float mean = pass.mean[t], rstd = pass.rstd[t];
    float gs[kHeld][V], normals[kHeld][V];
    float sums[2] = {};  // of g and g n
    for_own_packs<kHeld, V>(view, [&](int held, int) {
      for (int e = 0; e < V; ++e) {
        const float upstream = dy[held].get(e);
        const float normal = (z[held].get(e) - mean) * rstd;
        const float g = upstream * gamma[held][e];
        dgamma[held][e] += upstream * normal;
        dbeta[held][e] += upstream;
        sums[0] += g;
        sums[1] += g * normal;
        gs[held][e] = g;
        normals[held][e] = normal;
      }
    });
    block_sums(sums, shared);
    float* const used = shared;
    shared = shared_next;
    shared_next = used;
    const float shift = -sums[0] * view.share * rstd;
    const float slope = -sums[1] * view.share * rstd;
    for_own_packs<kHeld, V>(view, [&](int held, int h) {
      const int64_t place = row + h;
      if (t + 1 < end) load(held, place + view.H);
      float dz[V];
      for (int e = 0; e < V; ++e)
        dz[e] = rstd * gs[held][e] + (slope * normals[held][e] + shift);
      Elems elems;
      if (pass.dresidual != nullptr) {
        elems.set(dz);
        elems.store(pass.dresidual + place);
      }
      draws.drop(dz, t, h);
      elems.set(dz);
      elems.store(pass.dx + place);
      if constexpr (kSums == 3)
        for (int e = 0; e < V; ++e) dbias[held][e] += elems.get(e);
    });
  }
  float* const to = partial + blockIdx.x * kSums * view.H;
  for_own_packs<kHeld, V>(view, [&](int held, int h) {
    store_sums(to + h, dgamma[held]);
    store_sums(to + view.H + h, dbeta[held]);
    if constexpr (kSums == 3) store_sums(to + 2 * view.H + h, dbias[held]);
  });
}

constexpr int kJoinColumns = 16, kJoinLanes = 16;
constexpr int kJoinThreads = kJoinColumns * kJoinLanes;

// Adds columns [0, H) of the partial sums to dgamma, [H, 2 H) to dbeta, the
// rest, if there is one, to dbias: lane l adds chunks l, l + 16, ..., and lanes
// are added in a fixed order.
__global__ void __launch_bounds__(kJoinThreads)
    layernorm_join_kernel(float* dgamma,
                          float* dbeta,
                          float* dbias,
                          const float* partial,
                          int64_t chunks,
                          int64_t columns,
                          int64_t H) {
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t column =
      int64_t{blockIdx.x} * kJoinColumns + thread % kJoinColumns;
  double sum = 0;
  if (column < columns)
    for (int64_t chunk = thread / kJoinColumns; chunk < chunks;
         chunk += kJoinLanes)
      sum += static_cast<double>(partial[chunk * columns + column]);
  sum = reduce_columns(sum, shared_memory<double>(), kJoinLanes, kJoinColumns,
                       Sum());
  if (thread >= kJoinColumns || column >= columns) return;
  float* const to = column < H ? dgamma : column < 2 * H ? dbeta : dbias;
  to[column % H] += static_cast<float>(sum);
}

namespace {

// Calls body(pack, held): the pack width, and the packs per thread.
template <typename Body>
void with_row(DType dtype,
              int64_t H,
              std::initializer_list<const void*> memory,
              const Body& body) {
  with_pack(dtype, H, memory, [&](auto pack) {
    const int64_t packs = H / decltype(pack)::kCount;
    CHECK_MSG(packs <= kRowThreads<kManyPacks> * kManyPacks,
              "rows of {} elements", H);
    if (packs <= kRowThreads<kOnePack> * kOnePack)
      body(pack, std::integral_constant<int, kOnePack>());
    else
      body(pack, std::integral_constant<int, kManyPacks>());
  });
}

template <int kHeld>
dim3 threads_for(int64_t packs) {
  const int64_t threads = lesser(packs, int64_t{kRowThreads<kHeld>});
  return dim3(static_cast<unsigned>(ceil_div(threads, kWarpSize) * kWarpSize));
}

// Two pieces for block_sums of `sums` numbers.
int64_t shared_for(dim3 threads, int64_t sums) {
  return threads.x / kWarpSize * 2 * sums * int64_t{sizeof(float)};
}

}  // namespace

void layernorm_forward(Context& context, const LayerNormForwardArgs& args) {
  const int64_t rows = args.x.shape[0], H = args.x.shape[1];
  // Eight blocks for each of the 132 multiprocessors of an H200.
  constexpr int64_t kMaxBlocks = 1056;
  const auto memory = {static_cast<const void*>(args.y.data),
                       static_cast<const void*>(args.z.data), args.x.data,
                       args.residual.data};
  with_row(args.x.dtype, H, memory, [&](auto pack, auto held) {
    using P = decltype(pack);
    using T = typename P::Elem;
    const RowView view{rows, H, static_cast<int>(H / P::kCount),
                       1.0f / static_cast<float>(H)};
    const dim3 threads = threads_for<held()>(view.packs);
    const LayernormForward<T> pass{
        .y = static_cast<T*>(args.y.data),
        .z = static_cast<T*>(args.z.data),
        .mean = args.mean.f32(),
        .rstd = args.rstd.f32(),
        .x = static_cast<const T*>(args.x.data),
        .residual = static_cast<const T*>(args.residual.data),
        .gamma = args.gamma.f32(),
        .beta = args.beta.f32(),
        .eps = args.epsilon};
    launch(layernorm_forward_kernel<T, P::kCount, held()>,
           dim3(static_cast<unsigned>(lesser(rows, kMaxBlocks))), threads,
           shared_for(threads, 1), context.stream(), pass, view,
           token_draws(args.sequences, args.dropout, H));
  });
}

void layernorm_backward(Context& context, const LayerNormBackwardArgs& args) {
  const int64_t rows = args.dy.shape[0], H = args.dy.shape[1];
  // Six blocks for each of the 132 multiprocessors of an H200.
  constexpr int64_t kMaxChunks = 792, kMinRows = 4;
  const int64_t least = ceil_div(rows, kMaxChunks);
  const int64_t chunk_rows = least < kMinRows ? kMinRows : least;
  const int64_t chunks = ceil_div(rows, chunk_rows);
  const bool has_bias = args.dbias.data != nullptr;
  const int64_t columns = (has_bias ? 3 : 2) * H;
  auto* partial = static_cast<float*>(
      context.scratch(chunks * columns * int64_t{sizeof(float)}));
  const auto memory = {static_cast<const void*>(args.dx.data),
                       static_cast<const void*>(args.dresidual.data),
                       args.dy.data, args.z.data};
  with_row(args.dy.dtype, H, memory, [&](auto pack, auto held) {
    using P = decltype(pack);
    using T = typename P::Elem;
    const RowView view{rows, H, static_cast<int>(H / P::kCount),
                       1.0f / static_cast<float>(H)};
    const dim3 threads = threads_for<held()>(view.packs);
    const LayernormBackward<T> pass{
        .dx = static_cast<T*>(args.dx.data),
        .dresidual = static_cast<T*>(args.dresidual.data),
        .dy = static_cast<const T*>(args.dy.data),
        .z = static_cast<const T*>(args.z.data),
        .mean = args.mean.f32(),
        .rstd = args.rstd.f32(),
        .gamma = args.gamma.f32()};
    launch(has_bias ? layernorm_backward_kernel<T, P::kCount, held(), 3>
                    : layernorm_backward_kernel<T, P::kCount, held(), 2>,
           dim3(static_cast<unsigned>(chunks)), threads, shared_for(threads, 2),
           context.stream(), partial, pass, view, chunk_rows,
           token_draws(args.sequences, args.dropout, H));
  });
  launch(layernorm_join_kernel,
         dim3(static_cast<unsigned>(ceil_div(columns, kJoinColumns))),
         dim3(kJoinThreads), kJoinThreads * int64_t{sizeof(double)},
         context.stream(), args.dgamma.f32(), args.dbeta.f32(),
         has_bias ? args.dbias.f32() : nullptr, partial, chunks, columns, H);
}

}  // namespace syncopate::cuda
