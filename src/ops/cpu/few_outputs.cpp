#include "ops/cpu/few_outputs.h"

#include <type_traits>

#include "ops/cpu/column_sums.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/simd.h"

namespace syncopate::cpu {
namespace {

constexpr int64_t kRowsOfTask = 64;

// Reads sixteen elements of a row, of which the first `lanes` are valid. Memory
// may be read up to `limit`, the end of the tensor.
template <typename T>
struct RowEnd {
  int lanes;
  const T* limit;
  [[gnu::always_inline]] F16 get(const T* from) const {
    if (from + kLanes > limit) return SomeLanes{lanes, 1}.get(from);
    return kLane < static_cast<uint32_t>(lanes) ? load(from) : F16{};
  }
};

float sum_of_lanes(F16 value) {
  float lane[kLanes];
  store(lane, value);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
  return lane[0];
}

int64_t padded(int64_t D) {
  return ceil_div(D, kLanes) * kLanes;
}

// Copies w with each row zero-padded to whole vectors.
template <typename T>
void copy_weights(float* to, const ConstTensor& w) {
  const int64_t K = w.shape[0], D = w.shape[1], D16 = padded(D);
  for (int64_t k = 0; k < K; ++k)
    for (int64_t d = 0; d < D16; ++d) {
      const float value = d < D ? w.f32()[k * D + d] : 0.0f;
      if constexpr (std::is_same_v<T, float>)
        to[k * D16 + d] = value;
      else
        to[k * D16 + d] = to_float(to_bf16(value));
    }
}

// Calls body(std::integral_constant<int, K>), which unrolls loops over outputs.
template <typename Body>
void with_outputs(int64_t K, const Body& body) {
  CHECK(K >= 1 && K <= kMostFewOutputs);
  if (K == 1) body(std::integral_constant<int, 1>());
  if (K == 2) body(std::integral_constant<int, 2>());
  if (K == 3) body(std::integral_constant<int, 3>());
  if (K == 4) body(std::integral_constant<int, 4>());
}

template <typename T, int K>
void forward(Context& context,
             const Tensor& y,
             const ConstTensor& x,
             const float* w,
             const float* b) {
  const int64_t N = x.shape[0], D = x.shape[1], D16 = padded(D);
  const T* from = static_cast<const T*>(x.data);
  const int64_t whole = D / kLanes * kLanes;
  const RowEnd<T> end{static_cast<int>(D - whole), from + N * D};
  T* to = static_cast<T*>(y.data);
  parallel_for(context, ceil_div(N, kRowsOfTask), N * D, [&](int64_t task) {
    const int64_t last = std::min(N, (task + 1) * kRowsOfTask);
    for (int64_t n = task * kRowsOfTask; n < last; ++n) {
      F16 sum[K] = {};
      const T* row = from + n * D;
      const auto add = [&](const F16& value, int64_t d) {
        for (int k = 0; k < K; ++k) sum[k] += value * load(w + k * D16 + d);
      };
      for (int64_t d = 0; d < whole; d += kLanes) add(load(row + d), d);
      if (whole < D) add(end.get(row + whole), whole);
      for (int k = 0; k < K; ++k)
        assign(to[n * K + k],
               sum_of_lanes(sum[k]) + (b == nullptr ? 0.0f : b[k]));
    }
  });
}

// Processes rows [first, last): dx unless null, and dw_part (K, D), assigned.
template <typename T, int K>
void backward_rows(int64_t first,
                   int64_t last,
                   int64_t D,
                   T* dx,
                   float* dw_part,
                   const T* dy,
                   const T* x,
                   const float* w) {
  const int64_t D16 = padded(D);
  std::fill_n(dw_part, K * D, 0.0f);
  for (int64_t n = first; n < last; ++n) {
    F16 g[K];
    for (int k = 0; k < K; ++k) g[k] = splat(to_float(dy[n * K + k]));
    for_vectors(0, D, [&](auto lanes, int64_t d) {
      const F16 value = lanes.get(x + n * D + d);
      F16 sum{};
      for (int k = 0; k < K; ++k) {
        float* part = dw_part + k * D + d;
        lanes.put(part, lanes.get(part) + g[k] * value);
        sum += g[k] * load(w + k * D16 + d);
      }
      if (dx != nullptr) lanes.put(dx + n * D + d, sum);
    });
  }
}

}  // namespace

void few_outputs_forward(Context& context,
                         const Tensor& y,
                         const ConstTensor& x,
                         const ConstTensor& w,
                         const ConstTensor& b) {
  with_float_type(x.dtype, [&](auto type) {
    using T = decltype(type);
    const int64_t K = w.shape[0];
    auto* weights = scratch<float>(context, K * padded(w.shape[1]));
    copy_weights<T>(weights, w);
    with_outputs(K, [&](auto outputs) {
      forward<T, outputs()>(context, y, x, weights,
                            b.data == nullptr ? nullptr : b.f32());
    });
  });
}

void few_outputs_backward(Context& context,
                          const Tensor& dx,
                          const Tensor& dw,
                          const ConstTensor& dy,
                          const ConstTensor& x,
                          const ConstTensor& w) {
  with_float_type(x.dtype, [&](auto type) {
    using T = decltype(type);
    const int64_t N = x.shape[0], K = w.shape[0], D = w.shape[1];
    auto* weights = scratch<float>(context, K * padded(D));
    copy_weights<T>(weights, w);
    with_outputs(K, [&](auto outputs) {
      sum_over_rows(context, dw.f32(), N, K * D, N * D,
                    [&](int64_t first, int64_t last, float* part) {
                      backward_rows<T, outputs()>(
                          first, last, D, static_cast<T*>(dx.data), part,
                          static_cast<const T*>(dy.data),
                          static_cast<const T*>(x.data), weights);
                    });
    });
  });
}

}  // namespace syncopate::cpu
