// Pooling of NHWC activations. Threads handle packs of channels, so reads of a
// window are whole cache lines. The gradient of the maximum is gathered: each
// pixel checks the windows that contain it.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cuda/pack.cuh"
#include "cuda/reduce.cuh"
#include "ops/bodies.h"

namespace syncopate::cuda {

constexpr int kThreads = 256;

// An image is `pixels` rows of `packs` packs. A block takes `columns` packs of
// one image, `lanes` pixels at a time; groups of columns are adjacent.
struct AverageView {
  int64_t images, pixels, C, packs, groups;
  int columns, lanes;
};

template <int V>
struct AverageSums {
  float sum[V];
  float unused;  // an odd number of words avoids bank conflicts
};

struct AddAverageSums {
  template <int V>
  __device__ __forceinline__ AverageSums<V> operator()(
      AverageSums<V> a,
      const AverageSums<V>& b) const {
    for (int index = 0; index < V; ++index) a.sum[index] += b.sum[index];
    return a;
  }
};

// y = mean over the pixels of an image, in fp32: lane l sums pixels l, l +
// lanes, ..., and lanes are added in a fixed order.
template <typename T, int V>
__global__ void __launch_bounds__(kThreads)
    average_pool_kernel(float* y, const T* x, AverageView view) {
  const int thread = static_cast<int>(threadIdx.x);
  const int column = thread % view.columns, lane = thread / view.columns;
  const float share = 1.0f / static_cast<float>(view.pixels);
  for (int64_t task = blockIdx.x; task < view.images * view.groups;
       task += gridDim.x) {
    const int64_t image = task / view.groups;
    const int64_t pack = task % view.groups * view.columns + column;
    AverageSums<V> sums = {};
    if (pack < view.packs && lane < view.lanes)
      for (int64_t pixel = lane; pixel < view.pixels; pixel += view.lanes) {
        const auto values = Pack<T, V>::load(
            x + (image * view.pixels + pixel) * view.C + pack * V);
        for (int index = 0; index < V; ++index)
          sums.sum[index] += values.get(index);
      }
    sums = reduce_columns(sums, shared_memory<AverageSums<V>>(), view.lanes,
                          view.columns, AddAverageSums());
    if (pack < view.packs && lane == 0)
      for (int index = 0; index < V; ++index)
        y[image * view.C + pack * V + index] = sums.sum[index] * share;
  }
}

// dx = dy / pixels, the same for all pixels of an image.
template <typename T, int V>
__global__ void __launch_bounds__(kThreads)
    average_pool_backward_kernel(T* dx, const float* dy, AverageView view) {
  const int thread = static_cast<int>(threadIdx.x);
  const int column = thread % view.columns, lane = thread / view.columns;
  const float share = 1.0f / static_cast<float>(view.pixels);
  for (int64_t task = blockIdx.x; task < view.images * view.groups;
       task += gridDim.x) {
    const int64_t image = task / view.groups;
    const int64_t pack = task % view.groups * view.columns + column;
    if (pack >= view.packs) continue;
    Pack<T, V> values;
    for (int index = 0; index < V; ++index)
      values.set(index, dy[image * view.C + pack * V + index] * share);
    for (int64_t pixel = lane; pixel < view.pixels; pixel += view.lanes)
      values.store(dx + (image * view.pixels + pixel) * view.C + pack * V);
  }
}

// x (images, H, W, packs), y (images, P, Q, packs). Indices within a row fit an
// int.
struct MaxPoolView {
  int64_t images;
  int H, W, P, Q, packs;
  int window, stride, pad;
};

// A block takes rows (image, p) of y, its threads the packs of a row in memory
// order. NaN wins and is kept.
template <typename T, int V>
__global__ void __launch_bounds__(kThreads)
    max_pool_kernel(T* y, uint8_t* argmax, const T* x, MaxPoolView view) {
  for (int64_t row = blockIdx.x; row < view.images * view.P; row += gridDim.x) {
    const int64_t image = row / view.P;
    const int top = static_cast<int>(row % view.P) * view.stride - view.pad;
    const int first_r = top < 0 ? -top : 0;
    const int end_r = lesser(view.window, view.H - top);
    for (int item = threadIdx.x; item < view.Q * view.packs;
         item += blockDim.x) {
      const int left = item / view.packs * view.stride - view.pad;
      const int pack = item % view.packs;
      const int first_s = left < 0 ? -left : 0;
      const int end_s = lesser(view.window, view.W - left);
      float best[V];
      Pack<uint8_t, V> chosen;
      for (int index = 0; index < V; ++index) {
        best[index] = -INFINITY;
        chosen.elem[index] =
            static_cast<uint8_t>(first_r * view.window + first_s);
      }
      for (int r = first_r; r < end_r; ++r)
        for (int s = first_s; s < end_s; ++s) {
          const int64_t pixel = (image * view.H + top + r) * view.W + left + s;
          const auto values =
              Pack<T, V>::load(x + (pixel * view.packs + pack) * V);
          for (int index = 0; index < V; ++index) {
            const float value = values.get(index);
            if (value > best[index] || value != value) {
              best[index] = value;
              chosen.elem[index] = static_cast<uint8_t>(r * view.window + s);
            }
          }
        }
      Pack<T, V> result;
      for (int index = 0; index < V; ++index) result.set(index, best[index]);
      const int64_t to = (row * (view.Q * view.packs) + item) * V;
      result.store(y + to);
      chosen.store(argmax + to);
    }
  }
}

// Returns the first window along one axis that contains position `at`.
__device__ __forceinline__ int first_window(const MaxPoolView& view, int at) {
  const int from = at + view.pad - view.window;
  return from < 0 ? 0 : from / view.stride + 1;
}

// A block takes rows (image, h) of dx; each pack adds dy of the windows that
// chose it, in row order.
template <typename T, int V>
__global__ void __launch_bounds__(kThreads)
    max_pool_backward_kernel(T* dx,
                             const T* dy,
                             const uint8_t* argmax,
                             MaxPoolView view) {
  for (int64_t row = blockIdx.x; row < view.images * view.H; row += gridDim.x) {
    const int64_t image = row / view.H;
    const int h = static_cast<int>(row % view.H);
    const int first_p = first_window(view, h);
    for (int item = threadIdx.x; item < view.W * view.packs;
         item += blockDim.x) {
      const int w = item / view.packs, pack = item % view.packs;
      const int first_q = first_window(view, w);
      float sum[V] = {};
      for (int p = first_p; p < view.P; ++p) {
        const int r = h + view.pad - p * view.stride;
        if (r < 0) break;
        for (int q = first_q; q < view.Q; ++q) {
          const int s = w + view.pad - q * view.stride;
          if (s < 0) break;
          const int64_t pixel = (image * view.P + p) * view.Q + q;
          const int64_t at = (pixel * view.packs + pack) * V;
          const auto chosen = Pack<uint8_t, V>::load(argmax + at);
          const auto values = Pack<T, V>::load(dy + at);
          const auto here = static_cast<uint8_t>(r * view.window + s);
          for (int index = 0; index < V; ++index)
            sum[index] += chosen.elem[index] == here ? values.get(index) : 0.0f;
        }
      }
      Pack<T, V> result;
      for (int index = 0; index < V; ++index) result.set(index, sum[index]);
      result.store(dx + (row * (view.W * view.packs) + item) * V);
    }
  }
}

namespace {

// Returns whole warps for `items`, up to a full block.
dim3 block_for(int64_t items) {
  const int64_t warps = ceil_div(items, kWarpSize);
  return dim3(
      static_cast<unsigned>(std::min<int64_t>(warps * kWarpSize, kThreads)));
}

// Spreads columns evenly over the groups, so that few threads idle; more lanes
// than pixels would be useless.
AverageView average_view(const ConstTensor& x, int64_t V) {
  CHECK(x.layout == Layout::kNhwc && x.elems() > 0);
  constexpr int64_t kMaxColumns = 32;  // 512 bytes of a pixel in one piece
  const int64_t packs = x.shape[1] / V;
  const int64_t columns = ceil_div(packs, ceil_div(packs, kMaxColumns));
  const int64_t pixels = x.shape[2] * x.shape[3];
  return {x.shape[0],
          pixels,
          x.shape[1],
          packs,
          ceil_div(packs, columns),
          static_cast<int>(columns),
          static_cast<int>(std::min(pixels, kThreads / columns))};
}

MaxPoolView max_pool_view(const ConstTensor& x,
                          const ConstTensor& y,
                          const PoolSize& size,
                          int64_t V) {
  CHECK(x.layout == Layout::kNhwc && x.elems() > 0);
  const int64_t H = x.shape[2], W = x.shape[3], C = x.shape[1];
  // Leaves room for padding and a step of the block beyond the end.
  constexpr int64_t kMost = INT32_MAX / 2;
  CHECK(H <= kMost && W * C <= kMost && size.stride <= kMost);
  CHECK(y.shape[2] * size.stride <= kMost && y.shape[3] * C <= kMost &&
        y.shape[3] * size.stride <= kMost);
  const auto narrow = [](int64_t value) { return static_cast<int>(value); };
  return {x.shape[0],          narrow(H),           narrow(W),
          narrow(y.shape[2]),  narrow(y.shape[3]),  narrow(C / V),
          narrow(size.window), narrow(size.stride), narrow(size.pad)};
}

}  // namespace

void global_average_pool_forward(Context& context, Tensor y, ConstTensor x) {
  with_pack(x.dtype, x.shape[1], {x.data}, [&](auto pack) {
    using T = typename decltype(pack)::Elem;
    constexpr int V = decltype(pack)::kCount;
    const AverageView view = average_view(x, V);
    const int64_t threads = int64_t{view.lanes} * view.columns;
    launch(average_pool_kernel<T, V>,
           dim3(grid_for(view.images * view.groups, 1)), block_for(threads),
           threads * int64_t{sizeof(AverageSums<V>)}, context.stream(), y.f32(),
           static_cast<const T*>(x.data), view);
  });
}

void global_average_pool_backward(Context& context, Tensor dx, ConstTensor dy) {
  with_pack(dx.dtype, dx.shape[1], {dx.data}, [&](auto pack) {
    using T = typename decltype(pack)::Elem;
    constexpr int V = decltype(pack)::kCount;
    const AverageView view = average_view(dx, V);
    launch(average_pool_backward_kernel<T, V>,
           dim3(grid_for(view.images * view.groups, 1)),
           dim3(static_cast<unsigned>(view.lanes * view.columns)), 0,
           context.stream(), static_cast<T*>(dx.data), dy.f32(), view);
  });
}

void max_pool_forward(Context& context,
                      Tensor y,
                      Tensor argmax,
                      ConstTensor x,
                      const PoolSize& size) {
  with_pack(x.dtype, x.shape[1], {y.data, argmax.data, x.data}, [&](auto pack) {
    using T = typename decltype(pack)::Elem;
    constexpr int V = decltype(pack)::kCount;
    const MaxPoolView view = max_pool_view(x, y, size, V);
    launch(max_pool_kernel<T, V>, dim3(grid_for(view.images * view.P, 1)),
           block_for(view.Q * view.packs), 0, context.stream(),
           static_cast<T*>(y.data), static_cast<uint8_t*>(argmax.data),
           static_cast<const T*>(x.data), view);
  });
}

void max_pool_backward(Context& context,
                       Tensor dx,
                       ConstTensor dy,
                       ConstTensor argmax,
                       const PoolSize& size) {
  with_pack(dx.dtype, dx.shape[1], {dx.data, dy.data, argmax.data},
            [&](auto pack) {
              using T = typename decltype(pack)::Elem;
              constexpr int V = decltype(pack)::kCount;
              const MaxPoolView view = max_pool_view(dx, dy, size, V);
              launch(max_pool_backward_kernel<T, V>,
                     dim3(grid_for(view.images * view.H, 1)),
                     block_for(view.W * view.packs), 0, context.stream(),
                     static_cast<T*>(dx.data), static_cast<const T*>(dy.data),
                     static_cast<const uint8_t*>(argmax.data), view);
            });
}

}  // namespace syncopate::cuda
