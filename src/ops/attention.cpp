#include "ops/attention.h"

#include "ops/bodies.h"

namespace syncopate {
namespace {

// Positions fit into the 16 bits that the draws of dropout leave them.
constexpr int64_t kMaxPosition = 65536;

// `wide` (T, 3 H), `narrow` (T, H).
void check_shapes(const ConstTensor& wide,
                  const ConstTensor& narrow,
                  const ConstTensor& lse,
                  const Sequences& sequences,
                  int64_t heads,
                  const TokenDropout& dropout) {
  CHECK(narrow.shape.rank() == 2 && heads > 0);
  const int64_t T = narrow.shape[0], H = narrow.shape[1];
  CHECK_MSG(wide.shape == Shape({T, 3 * H}) && lse.shape == Shape({T, heads}),
            "{} and {} of {}", wide.shape.text(), lse.shape.text(),
            narrow.shape.text());
  CHECK_MSG(H % heads == 0, "{} columns for {} heads", H, heads);
  CHECK(wide.dtype == narrow.dtype && lse.dtype == DType::kF32);
  CHECK(sequences.tokens == T && sequences.max_length <= kMaxPosition);
  CHECK(dropout.p >= 0 && dropout.p < 1);
}

}  // namespace

void attention_forward(Context& context,
                       Tensor out,
                       Tensor lse,
                       ConstTensor qkv,
                       const Sequences& sequences,
                       int64_t heads,
                       const TokenDropout& dropout) {
  check_shapes(qkv, out, lse, sequences, heads, dropout);
  bodies_of(context).attention_forward(context, out, lse, qkv, sequences, heads,
                                       dropout);
}

void attention_backward(Context& context,
                        Tensor dqkv,
                        ConstTensor dout,
                        ConstTensor qkv,
                        ConstTensor out,
                        ConstTensor lse,
                        const Sequences& sequences,
                        int64_t heads,
                        const TokenDropout& dropout) {
  check_shapes(qkv, out, lse, sequences, heads, dropout);
  check_shapes(dqkv, dout, lse, sequences, heads, dropout);
  CHECK(dqkv.dtype == qkv.dtype && dqkv.data != qkv.data);
  bodies_of(context).attention_backward(context, dqkv, dout, qkv, out, lse,
                                        sequences, heads, dropout);
}

}  // namespace syncopate
