#include "cuda/pack.cuh"
#include "cuda/range.cuh"
#include "cuda/reduce.cuh"
#include "cuda/shadow.cuh"
#include "cuda/touched.cuh"
#include "ops/bodies.h"

namespace syncopate::cuda {

constexpr int kAdamPack = kPackElems<float>;
constexpr unsigned kThreads = 256;

// Returns the factor of the rate and updates the moments. Multiplications and
// additions are fused by hand, so an element gets the same bits in a pack as
// alone.
__device__ __forceinline__ float adam_direction_of(float x,
                                                   float* m,
                                                   float* v,
                                                   float gradient,
                                                   float grad_scale,
                                                   const AdamParams& params) {
  const float decay = params.weight_decay * x;
  const float g = params.is_decoupled ? grad_scale * gradient
                                      : fmaf(grad_scale, gradient, decay);
  *m = fmaf(params.beta1, *m, params.rest1 * g);
  *v = fmaf(params.beta2, *v, params.rest2 * g * g);
  const float d =
      (*m / params.correction1) / (sqrtf(*v / params.correction2) + params.eps);
  return params.is_decoupled ? d + decay : d;
}

__device__ __forceinline__ float grad_scale_of(const AdamParams& params) {
  return params.clip_factor == nullptr
             ? params.grad_scale
             : params.grad_scale * *params.clip_factor;
}

// `to`: the parameters themselves (a step), or the direction.
template <bool kSteps>
__device__ __forceinline__ float result_of(float x,
                                           float d,
                                           const AdamParams& params) {
  return kSteps ? fmaf(-params.rate, d, x) : d;
}

template <bool kSteps>
__global__ void __launch_bounds__(kThreads) adam_kernel(float* to,
                                                        const float* x,
                                                        float* m,
                                                        float* v,
                                                        const float* gradient,
                                                        AdamParams params,
                                                        RangeSplit range) {
  const float grad_scale = grad_scale_of(params);
  for_range<kAdamPack>(range, [&](auto width, int64_t first) {
    using Elems = Pack<float, width()>;
    const Elems xs = Elems::load(x + first);
    const Elems gs = Elems::load(gradient + first);
    Elems ms = Elems::load(m + first), vs = Elems::load(v + first), results;
    for (int i = 0; i < width(); ++i)
      results.elem[i] = result_of<kSteps>(
          xs.elem[i],
          adam_direction_of(xs.elem[i], &ms.elem[i], &vs.elem[i], gs.elem[i],
                            grad_scale, params),
          params);
    ms.store(m + first);
    vs.store(v + first);
    results.store(to + first);
    if constexpr (kSteps) store_copies(params.copies, first, results);
  });
}

// Steps of table rows. `group` lanes (a power of two up to a warp) share a row:
// they scan its gradient and make a second pass only if it is not all zero.
template <bool kSteps>
struct RowSteps {
  float* to;
  const float* x;
  float *m, *v;
  const float* gradient;
  AdamParams params;
  int64_t rows;
  int group;

  // A warp's lanes call together, as they vote; `row` is that of the lane's
  // group, and `is_mine` is false if the group has none.
  __device__ __forceinline__ void take(int64_t row,
                                       bool is_mine,
                                       float grad_scale) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const int member = lane % group;
    const unsigned lanes_of_group =
        (group == kWarpSize ? kAllLanes : (1u << group) - 1) << (lane - member);
    const int64_t begin = row * params.lazy_row;
    bool has_any = false;
    if (is_mine)
      for (int64_t d = member; d < params.lazy_row; d += group)
        has_any = has_any || gradient[begin + d] != 0;
    const unsigned votes = __ballot_sync(kAllLanes, has_any);
    if (!is_mine) return;
    const bool is_touched = (votes & lanes_of_group) != 0;
    if (!is_touched) {
      if (!kSteps)
        for (int64_t d = member; d < params.lazy_row; d += group)
          to[begin + d] = 0;
      return;
    }
    for (int64_t d = member; d < params.lazy_row; d += group) {
      const int64_t i = begin + d;
      to[i] =
          result_of<kSteps>(x[i],
                            adam_direction_of(x[i], m + i, v + i, gradient[i],
                                              grad_scale, params),
                            params);
    }
  }
};

template <bool kSteps>
__global__ void __launch_bounds__(kThreads)
    adam_rows_kernel(RowSteps<kSteps> steps) {
  const float grad_scale = grad_scale_of(steps.params);
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  const int64_t first = thread / steps.group, stride = threads / steps.group;
  // All lanes of a warp iterate equally often.
  const int64_t rounds = ceil_div(steps.rows, stride);
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t row = round * stride + first;
    steps.take(row, row < steps.rows, grad_scale);
  }
}

// A block of a table has up to 128 rows, which a warp takes in turns, so it
// takes few blocks at a time. (With one, the kernel keeps its vote in local
// memory.)
constexpr int kBlocksOfRows = 2;

// The rows of marked blocks. A row in several is taken with the first of them.
__global__ void __launch_bounds__(kThreads)
    adam_touched_rows_kernel(RowSteps<true> steps) {
  const float grad_scale = grad_scale_of(steps.params);
  const TouchedBlocks& touched = steps.params.touched;
  const int64_t row_elems = steps.params.lazy_row;
  const int64_t elems = steps.rows * row_elems;
  const int64_t place = steps.gradient - touched.begin;
  const int group = static_cast<int>(threadIdx.x) % kWarpSize / steps.group;
  const auto begins_in = [&](int64_t row, int64_t block) {
    int64_t before = (place + row * row_elems) / TouchedBlocks::kElems;
    while (before < block && touched.marks[before] == 0) ++before;
    return before == block;
  };
  for_touched<kBlocksOfRows>(
      touched, steps.gradient, elems, [&](int64_t block, int64_t begin) {
        const int64_t end = lesser(begin + TouchedBlocks::kElems, elems);
        for (int64_t first = begin < 0 ? 0 : begin / row_elems;
             first * row_elems < end; first += kWarpSize / steps.group) {
          const int64_t row = first + group;
          steps.take(row, row * row_elems < end && begins_in(row, block),
                     grad_scale);
        }
      });
}

template <bool kSteps>
void launch_adam(Context& context,
                 std::span<float> to,
                 std::span<const float> x,
                 std::span<float> m,
                 std::span<float> v,
                 std::span<const float> gradient,
                 const AdamParams& params) {
  const int64_t elems = std::ssize(x);
  if (elems == 0) return;
  if (params.lazy_row == 0) {
    const RangeSplit range = split_range<kAdamPack>(
        elems, to.data(), x.data(), m.data(), v.data(), gradient.data());
    launch(adam_kernel<kSteps>,
           dim3(grid_for(range.items(kAdamPack), kThreads)), dim3(kThreads), 0,
           context.stream(), to.data(), x.data(), m.data(), v.data(),
           gradient.data(), params, range);
    return;
  }
  const int group = lanes_for(params.lazy_row);
  const int64_t rows = elems / params.lazy_row;
  const RowSteps<kSteps> steps{to.data(),       x.data(), m.data(), v.data(),
                               gradient.data(), params,   rows,     group};
  if constexpr (kSteps)
    if (params.touched.marks != nullptr) {
      launch(adam_touched_rows_kernel,
             grid_of_touched<kBlocksOfRows>(elems, kThreads), dim3(kThreads), 0,
             context.stream(), steps);
      return;
    }
  launch(adam_rows_kernel<kSteps>, dim3(grid_for(rows * group, kThreads)),
         dim3(kThreads), 0, context.stream(), steps);
}

void adam_update(Context& context,
                 std::span<float> x,
                 std::span<float> m,
                 std::span<float> v,
                 std::span<const float> gradient,
                 const AdamParams& params) {
  launch_adam<true>(context, x, x, m, v, gradient, params);
}

void adam_direction(Context& context,
                    std::span<float> direction,
                    std::span<const float> x,
                    std::span<float> m,
                    std::span<float> v,
                    std::span<const float> gradient,
                    const AdamParams& params) {
  launch_adam<false>(context, direction, x, m, v, gradient, params);
}

}  // namespace syncopate::cuda
