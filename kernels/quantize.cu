#include "ops/quantize.h"

#include <cmath>

#include "cuda/draws.cuh"
#include "cuda/pack.cuh"
#include "cuda/range.cuh"
#include "cuda/reduce.cuh"
#include "ops/bodies.h"

namespace syncopate::cuda {

constexpr unsigned kQuantizeThreads = 256;
constexpr int kWarps = kQuantizeThreads / kWarpSize;  // per block
constexpr int64_t kGroup = 32;  // elements; their bits fill whole words

// The segments of a range, in the form that kernels use.
struct Tensors {
  const int64_t* begins;  // followed by the length of the range
  const Segments::Chunk* chunks;
  const int64_t* first_chunks;  // followed by the number of chunks
  int64_t tensors, num_chunks, elems;

  explicit Tensors(const Segments& segments)
      : begins(segments.device_begins()),
        chunks(segments.device_chunks()),
        first_chunks(segments.device_first_chunks()),
        tensors(segments.num_segments()),
        num_chunks(std::ssize(segments.chunks())),
        elems(segments.num_elems()) {}

  // Returns the tensor that contains element i.
  __device__ __forceinline__ int64_t tensor_of(int64_t i) const {
    int64_t tensor = 0, behind = tensors;
    while (behind - tensor > 1) {
      const int64_t middle = (tensor + behind) / 2;
      (begins[middle] <= i ? tensor : behind) = middle;
    }
    return tensor;
  }
};

__device__ __forceinline__ int64_t global_warp() {
  return (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarpSize;
}
__device__ __forceinline__ int64_t num_warps() {
  return int64_t{gridDim.x} * blockDim.x / kWarpSize;
}
__device__ __forceinline__ int lane_of_thread() {
  return static_cast<int>(threadIdx.x % kWarpSize);
}

struct Magnitude {
  __device__ __forceinline__ double operator()(float x) const {
    return static_cast<double>(fabsf(x));
  }
};
struct Square {
  __device__ __forceinline__ double operator()(float x) const {
    return static_cast<double>(x) * static_cast<double>(x);
  }
};

// One warp per chunk: element i of the range goes to lane i % 32. With
// kHasSigns it also packs the signs of groups that begin in the chunk.
template <typename Measure, bool kHasSigns>
__global__ void __launch_bounds__(kQuantizeThreads)
    sum_in_chunks_kernel(double* partial,  // per chunk
                         uint32_t* words,
                         const float* x,
                         Tensors tensors) {
  constexpr int kLoads = 8;  // independent, for enough bytes in flight
  const int lane = lane_of_thread();
  for (int64_t index = global_warp(); index < tensors.num_chunks;
       index += num_warps()) {
    const int64_t begin = tensors.chunks[index].begin;
    const int64_t end = begin + tensors.chunks[index].elems;
    double sum = 0;
    for (int64_t start = begin / kGroup * kGroup; start < end;
         start += kLoads * kGroup) {
      float values[kLoads];
      for (int load = 0; load < kLoads; ++load) {
        const int64_t first = start + load * kGroup;
        const bool is_read = first < end && first + lane < tensors.elems;
        values[load] = is_read ? x[first + lane] : 0.0f;
      }
      for (int load = 0; load < kLoads; ++load) {
        const int64_t first = start + load * kGroup;
        if (first >= end) break;
        const bool is_inside = first + lane >= begin && first + lane < end;
        if (is_inside) sum += Measure()(values[load]);
        if constexpr (kHasSigns) {
          const unsigned word = __ballot_sync(kAllLanes, values[load] < 0);
          if (lane == 0 && first >= begin) words[first / kGroup] = word;
        }
      }
    }
    sum = warp_sum(sum);
    if (lane == 0) partial[index] = sum;
  }
}

// One warp per tensor sums its chunks, chunk i of the tensor in lane i % 32;
// lane 0 calls finish(tensor, sum).
template <typename Finish>
__device__ __forceinline__ void for_sums_of_tensors(const double* partial,
                                                    const Tensors& tensors,
                                                    const Finish& finish) {
  for (int64_t tensor = global_warp(); tensor < tensors.tensors;
       tensor += num_warps()) {
    double sum = 0;
    for (int64_t chunk = tensors.first_chunks[tensor] + lane_of_thread();
         chunk < tensors.first_chunks[tensor + 1]; chunk += kWarpSize)
      sum += partial[chunk];
    sum = warp_sum(sum);
    if (lane_of_thread() == 0) finish(tensor, sum);
  }
}

__global__ void __launch_bounds__(kQuantizeThreads)
    scales_kernel(float* scales, const double* partial, Tensors tensors) {
  for_sums_of_tensors(partial, tensors, [&](int64_t tensor, double sum) {
    const int64_t elems = tensors.begins[tensor + 1] - tensors.begins[tensor];
    scales[tensor] = static_cast<float>(sum / static_cast<double>(elems));
  });
}

__global__ void __launch_bounds__(kQuantizeThreads)
    norms_kernel(float* norms, const double* partial, Tensors tensors) {
  for_sums_of_tensors(partial, tensors, [&](int64_t tensor, double sum) {
    norms[tensor] = static_cast<float>(sqrt(sum));
  });
}

namespace {

// Assigns `to` one number per tensor: `finish` of its chunks' sums.
void start_sums(Context& context,
                void (*sum_kernel)(double*, uint32_t*, const float*, Tensors),
                void (*finish_kernel)(float*, const double*, Tensors),
                float* to,
                uint32_t* words,
                const float* x,
                const Tensors& tensors) {
  auto* partial = static_cast<double*>(
      context.scratch(tensors.num_chunks * int64_t{sizeof(double)}));
  launch(sum_kernel, dim3(grid_for(tensors.num_chunks, kWarps)),
         dim3(kQuantizeThreads), 0, context.stream(), partial, words, x,
         tensors);
  launch(finish_kernel, dim3(grid_for(tensors.tensors, kWarps)),
         dim3(kQuantizeThreads), 0, context.stream(), to, partial, tensors);
}

}  // namespace

void sign_encode(Context& context,
                 std::span<uint32_t> words,
                 std::span<float> scales,
                 std::span<const float> x,
                 const Segments& segments) {
  start_sums(context, sum_in_chunks_kernel<Magnitude, true>, scales_kernel,
             scales.data(), words.data(), x.data(), Tensors(segments));
}

constexpr int kBlendPack = kPackElems<float>;

// Calls put(element, tensor, i) for each element of y; with kIsAssigned it
// passes zeros instead of y's old values.
template <bool kIsAssigned, typename Put>
__device__ __forceinline__ void for_elements(float* y,
                                             const Tensors& tensors,
                                             const RangeSplit& range,
                                             const Put& put) {
  for_range<kBlendPack>(range, [&](auto width, int64_t first) {
    using Elems = Pack<float, width()>;
    Elems ys{};
    if constexpr (!kIsAssigned) ys = Elems::load(y + first);
    int64_t tensor = tensors.tensor_of(first);
    for (int e = 0; e < width(); ++e) {
      if (first + e >= tensors.begins[tensor + 1]) ++tensor;
      put(ys.elem[e], tensor, first + e);
    }
    ys.store(y + first);
  });
}

template <bool kIsAssigned>
__global__ void __launch_bounds__(kQuantizeThreads)
    sign_blend_kernel(float* y,
                      const uint32_t* words,
                      const float* scales,
                      Tensors tensors,
                      float a,
                      float b,
                      RangeSplit range) {
  for_elements<kIsAssigned>(
      y, tensors, range, [&](float& to, int64_t tensor, int64_t i) {
        const bool is_negative = (words[i / kGroup] >> (i % kGroup)) & 1;
        const float scale = b * scales[tensor];
        const float q = is_negative ? -scale : scale;
        to = kIsAssigned ? q : fmaf(a, to, q);
      });
}

void sign_blend(Context& context,
                std::span<float> y,
                std::span<const uint32_t> words,
                std::span<const float> scales,
                const Segments& segments,
                float a,
                float b) {
  const RangeSplit range = split_range<kBlendPack>(std::ssize(y), y.data());
  launch(a == 0 ? sign_blend_kernel<true> : sign_blend_kernel<false>,
         dim3(grid_for(range.items(kBlendPack), kQuantizeThreads)),
         dim3(kQuantizeThreads), 0, context.stream(), y.data(), words.data(),
         scales.data(), Tensors(segments), a, b, range);
}

constexpr int kTile = 128;  // elements per warp: one block of Philox per thread

// Returns the code of a value: its sign, and above it the level.
__device__ __forceinline__ uint32_t code_of(float x,
                                            float norm,
                                            float levels,
                                            uint32_t draw) {
  const float exact = fabsf(x) / norm * levels;
  const float level = exact < levels ? exact : levels;  // also for NaN
  const auto below = static_cast<int32_t>(level);
  const float fraction = level - static_cast<float>(below);
  const auto u = static_cast<float>(static_cast<int32_t>(draw >> 8));
  const bool is_up = u < fraction * 0x1p24f;
  return (static_cast<uint32_t>(below) + uint32_t{is_up}) << 1 |
         uint32_t{x < 0};
}

// Returns word `index` of a sequence of codes.
__device__ __forceinline__ uint32_t word_of(const uint32_t* codes,
                                            int index,
                                            int bits) {
  const int first = index * 32 / bits, last = (index * 32 + 31) / bits;
  uint32_t word = codes[first] >> (index * 32 - first * bits);
  for (int code = first + 1; code <= last; ++code)
    word |= codes[code] << (code * bits - index * 32);
  return word;
}

__global__ void __launch_bounds__(kQuantizeThreads)
    qsgd_encode_kernel(uint32_t* words,
                       const float* norms,
                       const float* x,
                       Tensors tensors,
                       float levels,
                       int bits,
                       Draw draw) {
  const int lane = lane_of_thread();
  uint32_t* codes = shared_memory<uint32_t>() + threadIdx.x / kWarpSize * kTile;
  const int64_t num_words = packed_words(tensors.elems, bits);
  for (int64_t tile = global_warp(); tile * kTile < tensors.elems;
       tile += num_warps()) {
    const int64_t first = tile * kTile + lane * 4;
    const Draws draws = draws_of(draw, first / 4);
    int64_t tensor =
        first < tensors.elems ? tensors.tensor_of(first) : tensors.tensors;
    for (int e = 0; e < 4; ++e) {
      const int64_t i = first + e;
      uint32_t code = 0;
      if (i < tensors.elems) {
        if (i >= tensors.begins[tensor + 1]) ++tensor;
        // A zero tensor: 0 / 1.
        const float norm = norms[tensor] == 0 ? 1.0f : norms[tensor];
        code = code_of(x[i], norm, levels, draws.word[e]);
      }
      codes[lane * 4 + e] = code;
    }
    __syncwarp();
    const int64_t first_word = tile * (kTile / 32) * bits;
    for (int index = lane; index < kTile / 32 * bits; index += kWarpSize)
      if (first_word + index < num_words)
        words[first_word + index] = word_of(codes, index, bits);
    __syncwarp();
  }
}

void qsgd_encode(Context& context,
                 std::span<uint32_t> words,
                 std::span<float> norms,
                 std::span<const float> x,
                 const Segments& segments,
                 const QsgdParams& params,
                 const Draw& draw) {
  const Tensors tensors(segments);
  start_sums(context, sum_in_chunks_kernel<Square, false>, norms_kernel,
             norms.data(), nullptr, x.data(), tensors);
  constexpr int64_t kSharedBytes = kWarps * kTile * int64_t{sizeof(uint32_t)};
  launch(qsgd_encode_kernel, dim3(grid_for(tensors.elems, kWarps * kTile)),
         dim3(kQuantizeThreads), kSharedBytes, context.stream(), words.data(),
         norms.data(), x.data(), tensors, static_cast<float>(params.levels),
         1 + bits_of_level(params.levels), draw);
}

// units[tensor] = b * c |x|_2 / s: the value of one level.
__global__ void __launch_bounds__(kQuantizeThreads)
    level_units_kernel(float* units,
                       const float* norms,
                       Tensors tensors,
                       QsgdParams params,
                       float b) {
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t tensor = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       tensor < tensors.tensors; tensor += threads) {
    const auto d = static_cast<double>(tensors.begins[tensor + 1] -
                                       tensors.begins[tensor]);
    const auto s = static_cast<double>(params.levels);
    const double c =
        params.is_biased ? 1 / (1 + lesser(d / (s * s), sqrt(d) / s)) : 1;
    units[tensor] =
        b * static_cast<float>(static_cast<double>(norms[tensor]) * (c / s));
  }
}

template <bool kIsAssigned>
__global__ void __launch_bounds__(kQuantizeThreads)
    qsgd_blend_kernel(float* y,
                      const uint32_t* words,
                      const float* units,
                      Tensors tensors,
                      int bits,
                      float a,
                      RangeSplit range) {
  const uint32_t mask = (1u << bits) - 1;
  for_elements<kIsAssigned>(
      y, tensors, range, [&](float& to, int64_t tensor, int64_t i) {
        const int bit = static_cast<int>(i % kGroup) * bits;
        const uint32_t* from = words + i / kGroup * bits + bit / 32;
        uint32_t code = from[0] >> (bit % 32);
        if (bit % 32 + bits > 32) code |= from[1] << (32 - bit % 32);
        code &= mask;
        const auto level = static_cast<int32_t>(code >> 1);
        const auto q = static_cast<float>(code & 1 ? -level : level);
        to = kIsAssigned ? units[tensor] * q : fmaf(units[tensor], q, a * to);
      });
}

void qsgd_blend(Context& context,
                std::span<float> y,
                std::span<const uint32_t> words,
                std::span<const float> norms,
                const Segments& segments,
                const QsgdParams& params,
                float a,
                float b) {
  const Tensors tensors(segments);
  auto* units = static_cast<float*>(
      context.scratch(tensors.tensors * int64_t{sizeof(float)}));
  launch(level_units_kernel, dim3(grid_for(tensors.tensors, kQuantizeThreads)),
         dim3(kQuantizeThreads), 0, context.stream(), units, norms.data(),
         tensors, params, b);
  const RangeSplit range = split_range<kBlendPack>(std::ssize(y), y.data());
  launch(a == 0 ? qsgd_blend_kernel<true> : qsgd_blend_kernel<false>,
         dim3(grid_for(range.items(kBlendPack), kQuantizeThreads)),
         dim3(kQuantizeThreads), 0, context.stream(), y.data(), words.data(),
         units, tensors, 1 + bits_of_level(params.levels), a, range);
}

}  // namespace syncopate::cuda
