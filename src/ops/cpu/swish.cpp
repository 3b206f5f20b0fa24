#include "ops/swish.h"

#include "ops/bodies.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/vector_math.h"

namespace syncopate::cpu {
namespace {

// s(-|x|), and |x| bounded where that is 0 in fp32: infinity times 0 would be
// NaN.
struct LogisticTail {
  F16 distance, share;
};
[[gnu::always_inline]] inline LogisticTail logistic_tail(F16 x) {
  const F16 magnitude = x > 0 ? x : -x;
  const F16 a = magnitude > 88.0f ? splat(88.0f) : magnitude;  // propagates NaN
  const F16 e = exp(-a);
  return {a, e / (1.0f + e)};
}

}  // namespace

void swish_forward(Context& context, Tensor y, ConstTensor x) {
  with_float_type(y.dtype, [&](auto element) {
    using T = decltype(element);
    T* to = static_cast<T*>(y.data);
    const T* from = static_cast<const T*>(x.data);
    parallel_pieces(context, y.elems(), [&](int64_t begin, int64_t end) {
      for_vectors(begin, end, [&](auto lanes, int64_t i) {
        const F16 value = lanes.get(from + i);
        const LogisticTail tail = logistic_tail(value);
        lanes.put(to + i, value > 0 ? value * (1.0f - tail.share)
                                    : -tail.distance * tail.share);
      });
    });
  });
}

void swish_backward(Context& context,
                    Tensor dx,
                    ConstTensor dy,
                    ConstTensor x) {
  with_float_type(dx.dtype, [&](auto element) {
    using T = decltype(element);
    T* to = static_cast<T*>(dx.data);
    const T* upstream = static_cast<const T*>(dy.data);
    const T* from = static_cast<const T*>(x.data);
    parallel_pieces(context, dx.elems(), [&](int64_t begin, int64_t end) {
      for_vectors(begin, end, [&](auto lanes, int64_t i) {
        const F16 value = lanes.get(from + i);
        const LogisticTail tail = logistic_tail(value);
        // The derivative (x < 0), or its difference from 1 (x > 0).
        const F16 rest =
            tail.share - tail.distance * tail.share * (1.0f - tail.share);
        lanes.put(to + i,
                  lanes.get(upstream + i) * (value > 0 ? 1.0f - rest : rest));
      });
    });
  });
}

}  // namespace syncopate::cpu
