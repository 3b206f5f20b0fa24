#include <algorithm>
#include <cmath>

#include "cuda/pack.cuh"
#include "cuda/philox.cuh"
#include "cuda/range.cuh"
#include "ops/bodies.h"

namespace syncopate::cuda {

constexpr unsigned kElementwiseThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kElementwiseThreads)
    add_kernel(T* y, const T* x, const T* z, RangeSplit range) {
  for_range<kPackElems<T>>(range, [&](auto width, int64_t first) {
    using Elems = Pack<T, width()>;
    Elems xs = Elems::load(x + first);
    const Elems zs = Elems::load(z + first);
    for (int i = 0; i < width(); ++i) xs.set(i, xs.get(i) + zs.get(i));
    xs.store(y + first);
  });
}

// An element gets the same bits in a pack as alone.
__global__ void __launch_bounds__(kElementwiseThreads)
    axpy_kernel(float* y, float a, const float* x, RangeSplit range) {
  for_range<kPackElems<float>>(range, [&](auto width, int64_t first) {
    using Elems = Pack<float, width()>;
    Elems ys = Elems::load(y + first);
    const Elems xs = Elems::load(x + first);
    for (int i = 0; i < width(); ++i)
      ys.elem[i] = fmaf(a, xs.elem[i], ys.elem[i]);
    ys.store(y + first);
  });
}

__global__ void __launch_bounds__(kElementwiseThreads)
    scale_by_kernel(float* y, const float* a, RangeSplit range) {
  const float factor = *a;
  for_range<kPackElems<float>>(range, [&](auto width, int64_t first) {
    using Elems = Pack<float, width()>;
    Elems ys = Elems::load(y + first);
    for (int i = 0; i < width(); ++i) ys.elem[i] *= factor;
    ys.store(y + first);
  });
}

__global__ void __launch_bounds__(kElementwiseThreads)
    scale_kernel(float* y, float a, RangeSplit range) {
  for_range<kPackElems<float>>(range, [&](auto width, int64_t first) {
    using Elems = Pack<float, width()>;
    Elems ys = Elems::load(y + first);
    for (int i = 0; i < width(); ++i) ys.elem[i] *= a;
    ys.store(y + first);
  });
}

template <typename To, typename From>
constexpr int kConvertPack = std::min(kPackElems<To>, kPackElems<From>);

template <typename To, typename From>
__global__ void __launch_bounds__(kElementwiseThreads)
    convert_kernel(To* to, const From* from, RangeSplit range) {
  for_range<kConvertPack<To, From>>(range, [&](auto width, int64_t first) {
    const auto source = Pack<From, width()>::load(from + first);
    Pack<To, width()> target;
    for (int i = 0; i < width(); ++i) target.set(i, source.get(i));
    target.store(to + first);
  });
}

// Consecutive matrices (rows, columns), cut into tiles.
struct TransposeSizes {
  int64_t matrices, rows, columns;
  int64_t row_tiles, column_tiles;  // per matrix
  int tile_rows, tile_columns;
  __host__ __device__ int64_t tiles() const {
    return matrices * row_tiles * column_tiles;
  }
  // Row stride of a tile in shared memory: odd, so that 32 elements of a column
  // are in 32 different banks.
  __host__ __device__ int stride() const { return tile_columns | 1; }
};

constexpr int kTileElems = 1024;  // four per thread
constexpr int kTileSide = 32;     // one access of a warp, if the matrix is that
                                  // wide

// to (matrices, columns, rows) = from (matrices, rows, columns): a tile is read
// along its rows and written along its columns, both coalesced. Matrices
// narrower than a tile's side get longer tiles.
template <typename To, typename From>
__global__ void __launch_bounds__(kElementwiseThreads)
    transpose_kernel(To* to, const From* from, TransposeSizes sizes) {
  float* tile = shared_memory<float>();
  const int stride = sizes.stride();
  for (int64_t index = blockIdx.x; index < sizes.tiles(); index += gridDim.x) {
    const int64_t above = index / sizes.column_tiles;
    const int64_t matrix = above / sizes.row_tiles;
    const int64_t row = above % sizes.row_tiles * sizes.tile_rows;
    const int64_t column = index % sizes.column_tiles * sizes.tile_columns;
    const int height =
        static_cast<int>(std::min<int64_t>(sizes.tile_rows, sizes.rows - row));
    const int width = static_cast<int>(
        std::min<int64_t>(sizes.tile_columns, sizes.columns - column));
    const From* source =
        from + (matrix * sizes.rows + row) * sizes.columns + column;
    To* target = to + (matrix * sizes.columns + column) * sizes.rows + row;
    const int elems = height * width;
    for (int i = static_cast<int>(threadIdx.x); i < elems;
         i += static_cast<int>(blockDim.x))
      tile[i / width * stride + i % width] =
          to_f32(source[i / width * sizes.columns + i % width]);
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < elems;
         i += static_cast<int>(blockDim.x))
      target[i / height * sizes.rows + i % height] =
          from_f32<To>(tile[i % height * stride + i / height]);
    __syncthreads();
  }
}

// A thread stores one pack of a pixel.
__global__ void __launch_bounds__(kElementwiseThreads)
    pad_channels_kernel(Bf16* y,         // (pixels, packs of 8)
                        const float* x,  // (pixels, C)
                        int64_t pixels,
                        int64_t C,
                        int64_t packs) {
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       i < pixels * packs; i += threads) {
    const int64_t pixel = i / packs, channel = i % packs * kPackElems<Bf16>;
    Pack<Bf16> pack;
    for (int index = 0; index < kPackElems<Bf16>; ++index)
      pack.set(index,
               channel + index < C ? x[pixel * C + channel + index] : 0.0f);
    pack.store(y + i * kPackElems<Bf16>);
  }
}

// A block's second grid dimension counts samples; a thread takes packs of a
// sample, four elements per block of Philox.
template <typename T, bool kIsAligned>
__global__ void __launch_bounds__(kElementwiseThreads)
    dropout_kernel(T* y,        // (N, D)
                   const T* x,  // (N, D)
                   int64_t N,
                   int64_t D,
                   uint32_t threshold,  // smaller draws drop
                   float kept_scale,
                   const DropoutKey* key,
                   uint64_t salt) {
  constexpr int kPack = kPackElems<T>;
  const uint64_t seed = key->seed ^ salt, first_sample = key->first_sample;
  const int64_t step = int64_t{gridDim.x} * blockDim.x * kPack;
  for (int64_t n = blockIdx.y; n < N; n += gridDim.y)
    for (int64_t i = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kPack;
         i < D; i += step) {
      const T* from = x + n * D + i;
      T* to = y + n * D + i;
      const int count = static_cast<int>(std::min<int64_t>(kPack, D - i));
      Pack<T> values{};
      if constexpr (kIsAligned)
        values = Pack<T>::load(from);
      else
        for (int e = 0; e < kPack; ++e)
          if (e < count) values.elem[e] = from[e];
      for (int e = 0; e < kPack; e += 4) {
        const Draws draws =
            philox_draws(seed, Purpose::kDropout,
                         first_sample + static_cast<uint64_t>(n), (i + e) / 4);
        for (int d = 0; d < 4; ++d)
          values.set(e + d, draws.word[d] >= threshold
                                ? values.get(e + d) * kept_scale
                                : 0.0f);
      }
      if constexpr (kIsAligned)
        values.store(to);
      else
        for (int e = 0; e < kPack; ++e)
          if (e < count) to[e] = values.elem[e];
    }
}

__global__ void __launch_bounds__(1)
    store_dropout_key_kernel(DropoutKey* to, DropoutKey key) {
  *to = key;
}

namespace {

// Calls body(element) with a value of the activation's type.
template <typename Body>
void with_element(DType dtype, const Body& body) {
  CHECK(dtype == DType::kF32 || dtype == DType::kBf16);
  if (dtype == DType::kF32)
    body(float());
  else
    body(Bf16());
}

template <int kPack, typename Kernel, typename... Args>
void launch_over(Context& context,
                 const RangeSplit& range,
                 Kernel kernel,
                 const Args&... args) {
  launch(kernel, dim3(grid_for(range.items(kPack), kElementwiseThreads)),
         dim3(kElementwiseThreads), 0, context.stream(), args..., range);
}

template <typename To, typename From>
void convert(Context& context, To* to, const From* from, int64_t elems) {
  constexpr int kPack = kConvertPack<To, From>;
  launch_over<kPack>(context, split_range<kPack>(elems, to, from),
                     convert_kernel<To, From>, to, from);
}

template <typename To, typename From>
void transpose(Context& context,
               To* to,
               const From* from,
               int64_t matrices,
               int64_t rows,
               int64_t columns) {
  const int64_t side = std::min<int64_t>(rows, kTileSide);
  const int64_t tile_columns = std::min(columns, kTileElems / side);
  const int64_t tile_rows = std::min(rows, kTileElems / tile_columns);
  const TransposeSizes sizes{.matrices = matrices,
                             .rows = rows,
                             .columns = columns,
                             .row_tiles = ceil_div(rows, tile_rows),
                             .column_tiles = ceil_div(columns, tile_columns),
                             .tile_rows = static_cast<int>(tile_rows),
                             .tile_columns = static_cast<int>(tile_columns)};
  launch(transpose_kernel<To, From>, dim3(grid_for(sizes.tiles(), 1)),
         dim3(kElementwiseThreads),
         int64_t{sizeof(float)} * sizes.tile_rows * sizes.stride(),
         context.stream(), to, from, sizes);
}

}  // namespace

void add(Context& context, Tensor y, ConstTensor x, ConstTensor z) {
  with_element(y.dtype, [&](auto element) {
    using T = decltype(element);
    constexpr int kPack = kPackElems<T>;
    auto* to = static_cast<T*>(y.data);
    const auto* a = static_cast<const T*>(x.data);
    const auto* b = static_cast<const T*>(z.data);
    launch_over<kPack>(context, split_range<kPack>(y.elems(), to, a, b),
                       add_kernel<T>, to, a, b);
  });
}

// Image tensors are one (C, H * W) matrix per image, or (H * W, C) in NHWC.
void reorder(Context& context, Tensor to, ConstTensor from) {
  const bool has_images = to.shape.rank() == 4;
  // oneDNN's layout exists on the CPU only.
  CHECK(!has_images ||
        (to.layout != Layout::kNchw16c && from.layout != Layout::kNchw16c));
  const int64_t channels = has_images ? to.shape[1] : 1;
  const int64_t pixels = has_images ? to.shape[2] * to.shape[3] : 1;
  const bool is_flat = to.layout == from.layout || channels == 1 || pixels == 1;
  if (to.elems() == 0) return;
  with_element(to.dtype, [&](auto to_element) {
    with_element(from.dtype, [&](auto from_element) {
      auto* target = static_cast<decltype(to_element)*>(to.data);
      const auto* source =
          static_cast<const decltype(from_element)*>(from.data);
      if (is_flat)
        convert(context, target, source, to.elems());
      else if (to.layout == Layout::kNhwc)
        transpose(context, target, source, to.shape[0], channels, pixels);
      else
        transpose(context, target, source, to.shape[0], pixels, channels);
    });
  });
}

void pad_channels(Context& context, Tensor y, ConstTensor x) {
  if (y.elems() == 0) return;
  const int64_t C = x.shape[1], packs = y.shape[1] / kPackElems<Bf16>;
  CHECK(is_pack_aligned(static_cast<const Bf16*>(y.data)));
  launch(pad_channels_kernel,
         dim3(grid_for(y.elems() / kPackElems<Bf16>, kElementwiseThreads)),
         dim3(kElementwiseThreads), 0, context.stream(),
         static_cast<Bf16*>(y.data), x.f32(), x.elems() / C, C, packs);
}

void axpy(Context& context,
          std::span<float> y,
          float a,
          std::span<const float> x) {
  constexpr int kPack = kPackElems<float>;
  launch_over<kPack>(context,
                     split_range<kPack>(std::ssize(y), y.data(), x.data()),
                     axpy_kernel, y.data(), a, x.data());
}

void scale(Context& context, std::span<float> y, float a) {
  constexpr int kPack = kPackElems<float>;
  launch_over<kPack>(context, split_range<kPack>(std::ssize(y), y.data()),
                     scale_kernel, y.data(), a);
}

void scale_by(Context& context, std::span<float> y, const float* a) {
  constexpr int kPack = kPackElems<float>;
  launch_over<kPack>(context, split_range<kPack>(std::ssize(y), y.data()),
                     scale_by_kernel, y.data(), a);
}

void dropout(Context& context,
             Tensor y,
             ConstTensor x,
             float p,
             const DropoutKey* key,
             uint64_t salt) {
  if (y.elems() == 0) return;
  // Draws below p * 2^32 drop; p < 1 is at most 1 - 2^-24, so this fits.
  const auto threshold =
      static_cast<uint32_t>(std::ceil(static_cast<double>(p) * 0x1.0p32));
  const float kept_scale = 1.0f / (1.0f - p);
  const int64_t N = y.shape[0], D = y.elems() / N;
  with_element(y.dtype, [&](auto element) {
    using T = decltype(element);
    auto* to = static_cast<T*>(y.data);
    const auto* from = static_cast<const T*>(x.data);
    const int64_t packs = ceil_div(D, kPackElems<T>);
    const int64_t threads = std::min<int64_t>(
        ceil_div(packs, kWarpSize) * kWarpSize, kElementwiseThreads);
    constexpr int64_t kMaxGridY = 65535;  // CUDA's limit
    const dim3 grid(grid_for(packs, threads),
                    static_cast<unsigned>(std::min(N, kMaxGridY)));
    const bool is_aligned =
        D % kPackElems<T> == 0 && is_pack_aligned(to) && is_pack_aligned(from);
    launch(is_aligned ? dropout_kernel<T, true> : dropout_kernel<T, false>,
           grid, dim3(static_cast<unsigned>(threads)), 0, context.stream(), to,
           from, N, D, threshold, kept_scale, key, salt);
  });
}

void store_dropout_key(Context& context,
                       DropoutKey* to,
                       const DropoutKey& key) {
  launch(store_dropout_key_kernel, dim3(1), dim3(1), 0, context.stream(), to,
         key);
}

}  // namespace syncopate::cuda
