#include "ops/sequences.h"

#include "ops/bodies.h"

namespace syncopate {

void token_dropout(Context& context,
                   Tensor y,
                   ConstTensor x,
                   const Sequences& sequences,
                   const TokenDropout& dropout) {
  CHECK(y.shape.rank() == 2 && y.shape[0] == sequences.tokens);
  CHECK(x.shape == y.shape && x.dtype == y.dtype);
  CHECK_MSG(dropout.p >= 0 && dropout.p < 1, "p = {}", dropout.p);
  bodies_of(context).token_dropout(context, y, x, sequences, dropout);
}

}  // namespace syncopate
