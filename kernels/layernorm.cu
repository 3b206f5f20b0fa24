#include "ops/layernorm.h"

#include <cmath>

#include "cuda/norm_rows.cuh"
#include "cuda/pack.cuh"
#include "cuda/reduce.cuh"
#include "cuda/token_draws.cuh"
#include "ops/bodies.h"

namespace syncopate::cuda {

// One block per row. Thread `thread` holds packs thread, thread + threads, ...,
// at most kHeld of them, from the first pass to the last. Few packs fit into
// registers. Many are partly in local memory, because a block of 1,024 threads
// has too few registers for them.
constexpr int kFewPacks = 2, kManyPacks = 16;
template <int kHeld>
inline constexpr int kRowThreads = kHeld == kFewPacks ? 512 : 1024;

struct RowView {
  int64_t rows, H, packs;
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

// Calls body(held, pack) for this thread's packs of a row.
template <int kHeld, typename Body>
__device__ __forceinline__ void for_own_packs(const RowView& view,
                                              const Body& body) {
  for (int held = 0; held < kHeld; ++held) {
    const int64_t pack = threadIdx.x + int64_t{held} * blockDim.x;
    if (pack < view.packs) body(held, pack);
  }
}

// The moments are those of z as stored, which is what backward reads. With many
// packs their values lie in local memory: a thread of 1,024 has 64 registers.
template <typename T, int V, int kHeld>
__global__ void __launch_bounds__(kRowThreads<kHeld>)
    layernorm_forward_kernel(LayernormForward<T> pass,
                             RowView view,
                             TokenDraws draws) {
  using Elems = Pack<T, V>;
  const float share = 1.0f / static_cast<float>(view.H);
  for (int64_t t = blockIdx.x; t < view.rows; t += gridDim.x) {
    float values[kHeld][V];
    float sum = 0;
    for_own_packs<kHeld>(view, [&](int held, int64_t pack) {
      float(&value)[V] = values[held];
      const int64_t h = pack * V, place = t * view.H + h;
      Elems elems = Elems::load(pass.x + place);
      for (int e = 0; e < V; ++e) value[e] = elems.get(e);
      draws.drop(value, t, h);
      if (pass.residual != nullptr) {
        const Elems residual = Elems::load(pass.residual + place);
        for (int e = 0; e < V; ++e) value[e] += residual.get(e);
      }
      for (int e = 0; e < V; ++e) {
        elems.set(e, value[e]);
        value[e] = elems.get(e);
        sum += value[e];
      }
      if (pass.z != nullptr) elems.store(pass.z + place);
    });
    const float mean = block_sum(sum, shared_memory<float>()) * share;
    float squares = 0;
    for_own_packs<kHeld>(view, [&](int held, int64_t) {
      for (int e = 0; e < V; ++e) {
        const float deviation = values[held][e] - mean;
        squares += deviation * deviation;
      }
    });
    const float variance = block_sum(squares, shared_memory<float>()) * share;
    const float rstd = 1.0f / sqrtf(variance + pass.eps);
    if (threadIdx.x == 0) {
      pass.mean[t] = mean;
      pass.rstd[t] = rstd;
    }
    for_own_packs<kHeld>(view, [&](int held, int64_t pack) {
      float gamma[V], beta[V];
      load_channels(gamma, pass.gamma + pack * V);
      load_channels(beta, pass.beta + pack * V);
      Elems elems;
      for (int e = 0; e < V; ++e)
        elems.set(e, (values[held][e] - mean) * rstd * gamma[e] + beta[e]);
      elems.store(pass.y + t * view.H + pack * V);
    });
  }
}

// With g = gamma dy and n = (z - mean) rstd, means by row:
//   dz = rstd (g - mean(g) - n mean(g n))
// A block takes chunks of successive rows and sums dy n, dy and, if there are
// three sums, dx as stored over them. With many packs their values lie in local
// memory: a thread of 1,024 has 64 registers.
template <typename T, int V, int kHeld, int kSums>
__global__ void __launch_bounds__(kRowThreads<kHeld>)
    layernorm_backward_kernel(float* partial,  // (chunks, kSums, H)
                              LayernormBackward<T> pass,
                              RowView view,
                              int64_t chunk_rows,
                              TokenDraws draws) {
  using Elems = Pack<T, V>;
  const float share = 1.0f / static_cast<float>(view.H);
  const int64_t chunks = ceil_div(view.rows, chunk_rows);
  for (int64_t chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
    float dgamma[kHeld][V] = {}, dbeta[kHeld][V] = {};
    float dbias[kSums == 3 ? kHeld : 1][V] = {};
    const int64_t end = lesser((chunk + 1) * chunk_rows, view.rows);
    for (int64_t t = chunk * chunk_rows; t < end; ++t) {
      const float mean = pass.mean[t], rstd = pass.rstd[t];
      float gs[kHeld][V], normals[kHeld][V];
      float sum = 0, products = 0;
      for_own_packs<kHeld>(view, [&](int held, int64_t pack) {
        const int64_t place = t * view.H + pack * V;
        const Elems dy = Elems::load(pass.dy + place);
        const Elems z = Elems::load(pass.z + place);
        float gamma[V];
        load_channels(gamma, pass.gamma + pack * V);
        for (int e = 0; e < V; ++e) {
          const float upstream = dy.get(e);
          const float normal = (z.get(e) - mean) * rstd;
          const float g = upstream * gamma[e];
          dgamma[held][e] += upstream * normal;
          dbeta[held][e] += upstream;
          sum += g;
          products += g * normal;
          gs[held][e] = g;
          normals[held][e] = normal;
        }
      });
      const float mean_g = block_sum(sum, shared_memory<float>()) * share;
      const float mean_gn = block_sum(products, shared_memory<float>()) * share;
      for_own_packs<kHeld>(view, [&](int held, int64_t pack) {
        const int64_t h = pack * V, place = t * view.H + h;
        float dz[V];
        Elems elems;
        for (int e = 0; e < V; ++e) {
          dz[e] = rstd * (gs[held][e] - mean_g - normals[held][e] * mean_gn);
          elems.set(e, dz[e]);
        }
        if (pass.dresidual != nullptr) elems.store(pass.dresidual + place);
        draws.drop(dz, t, h);
        for (int e = 0; e < V; ++e) {
          elems.set(e, dz[e]);
          if constexpr (kSums == 3) dbias[held][e] += elems.get(e);
        }
        elems.store(pass.dx + place);
      });
    }
    float* to = partial + chunk * kSums * view.H;
    for_own_packs<kHeld>(view, [&](int held, int64_t pack) {
      for (int e = 0; e < V; ++e) {
        to[pack * V + e] = dgamma[held][e];
        to[view.H + pack * V + e] = dbeta[held][e];
        if constexpr (kSums == 3)
          to[2 * view.H + pack * V + e] = dbias[held][e];
      }
    });
  }
}

constexpr int kJoinColumns = 32, kJoinLanes = 8;
constexpr int kJoinThreads = kJoinColumns * kJoinLanes;

// Adds columns [0, H) of the partial sums to dgamma, [H, 2 H) to dbeta, the
// rest, if there is one, to dbias: lane l adds chunks l, l + 8, ..., and lanes
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
    if (packs <= kRowThreads<kFewPacks> * kFewPacks)
      body(pack, std::integral_constant<int, kFewPacks>());
    else
      body(pack, std::integral_constant<int, kManyPacks>());
  });
}

dim3 threads_for(int64_t packs, int held) {
  const int64_t threads = ceil_div(packs, held);
  return dim3(static_cast<unsigned>(ceil_div(threads, kWarpSize) * kWarpSize));
}

int64_t shared_for(dim3 threads) {
  return threads.x / kWarpSize * int64_t{sizeof(float)};
}

}  // namespace

void layernorm_forward(Context& context, const LayerNormForwardArgs& args) {
  const int64_t rows = args.x.shape[0], H = args.x.shape[1];
  const auto memory = {static_cast<const void*>(args.y.data),
                       static_cast<const void*>(args.z.data), args.x.data,
                       args.residual.data};
  with_row(args.x.dtype, H, memory, [&](auto pack, auto held) {
    using P = decltype(pack);
    using T = typename P::Elem;
    const RowView view{rows, H, H / P::kCount};
    const dim3 threads = threads_for(view.packs, held());
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
           dim3(grid_for(rows, 1)), threads, shared_for(threads),
           context.stream(), pass, view,
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
    const RowView view{rows, H, H / P::kCount};
    const dim3 threads = threads_for(view.packs, held());
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
           dim3(grid_for(chunks, 1)), threads, shared_for(threads),
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
