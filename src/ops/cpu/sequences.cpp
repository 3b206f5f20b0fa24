#include "ops/sequences.h"

#include "ops/bodies.h"
#include "ops/cpu/dropout_draws.h"
#include "ops/cpu/parallel.h"

namespace syncopate::cpu {

void token_dropout(Context& context,
                   Tensor y,
                   ConstTensor x,
                   const Sequences& sequences,
                   const TokenDropout& dropout) {
  if (dropout.p == 0 && y.data == x.data) return;
  const int64_t H = y.shape[1];
  const TokenDraws draws(sequences, dropout, H);
  with_float_type(y.dtype, [&](auto element) {
    using T = decltype(element);
    parallel_for(context, y.shape[0], y.elems(), [&](int64_t t) {
      T* to = static_cast<T*>(y.data) + t * H;
      const T* from = static_cast<const T*>(x.data) + t * H;
      draws.for_row(t, [&](auto lanes, int64_t h, auto keep) {
        lanes.put(to + h, keep(lanes.get(from + h)));
      });
    });
  });
}

}  // namespace syncopate::cpu
