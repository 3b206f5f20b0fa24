#include "ops/activation.h"

#include "ops/bodies.h"
#include "ops/cpu/column_sums.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/vector_math.h"

namespace syncopate::cpu {

void gelu_forward(Context& context, Tensor y, ConstTensor x) {
  with_float_type(y.dtype, [&](auto element) {
    using T = decltype(element);
    T* to = static_cast<T*>(y.data);
    const T* from = static_cast<const T*>(x.data);
    parallel_vectors(context, y.elems(), [&](auto lanes, int64_t i) {
      const F16 value = lanes.get(from + i);
      const NormalTail tail = normal_tail(value);
      lanes.put(to + i,
                (value > 0 ? value : F16{}) - tail.distance * tail.probability);
    });
  });
}

void gelu_backward(Context& context,
                   Tensor dx,
                   ConstTensor dy,
                   ConstTensor x,
                   Tensor dbias) {
  constexpr float kDensityAtMean = 0x1.988454p-2f;  // 1 / sqrt(2 pi)
  with_float_type(dx.dtype, [&](auto element) {
    using T = decltype(element);
    T* to = static_cast<T*>(dx.data);
    const T* upstream = static_cast<const T*>(dy.data);
    const T* from = static_cast<const T*>(x.data);
    parallel_vectors(context, dx.elems(), [&](auto lanes, int64_t i) {
      const F16 value = lanes.get(from + i);
      const NormalTail tail = normal_tail(value);
      // The difference between Phi(x) + x phi(x) and 1 (x > 0) or 0 (x < 0).
      const F16 rest =
          tail.probability - tail.distance * tail.bell * kDensityAtMean;
      lanes.put(to + i,
                lanes.get(upstream + i) * (value > 0 ? 1.0f - rest : rest));
    });
    if (dbias.data != nullptr)
      add_column_sums(context, dbias.f32(), to, dx.shape[0], dx.shape[1]);
  });
}

}  // namespace syncopate::cpu
