#include "ops/attention.h"

#include "ops/bodies.h"

namespace syncopate {
namespace {

// Positions fit into the 16 bits that the numbering of dropout draws reserves
// for them.
constexpr int64_t kMaxPosition = 65536;

// Checks the bits of dropout, if forward keeps them.
template <typename Args>
void check_kept(const Context& context, const Args& args) {
  if (args.dropout.p == 0 ||
      !keeps_draws(context.device().kind(), args.out.dtype,
                   args.out.shape[1] / args.heads))
    return;
  const Sequences& sequences = args.sequences;
  CHECK(args.kept.dtype == DType::kI32 &&
        args.kept.shape ==
            kept_shape(sequences.count, args.heads, sequences.max_length));
}

// Checks `wide` (T, 3 H), `narrow` (T, H), and the rest as in `args`.
template <typename Args>
void check_shapes(const ConstTensor& wide,
                  const ConstTensor& narrow,
                  const Args& args) {
  CHECK(narrow.shape.rank() == 2 && args.heads > 0);
  const int64_t T = narrow.shape[0], H = narrow.shape[1], heads = args.heads;
  CHECK_MSG(
      wide.shape == Shape({T, 3 * H}) && args.lse.shape == Shape({T, heads}),
      "{} and {} of {}", wide.shape.text(), args.lse.shape.text(),
      narrow.shape.text());
  CHECK_MSG(H % heads == 0, "{} columns for {} heads", H, heads);
  CHECK(wide.dtype == narrow.dtype && args.lse.dtype == DType::kF32);
  CHECK(args.sequences.tokens == T &&
        args.sequences.max_length <= kMaxPosition);
  CHECK(args.dropout.p >= 0 && args.dropout.p < 1);
}

}  // namespace

// A word of each thread of a block, for each tile of 64 queries and 64 keys.
Shape kept_shape(int64_t N, int64_t heads, int64_t max_length) {
  constexpr int64_t kSide = 64, kThreads = 128;
  const int64_t tiles = (max_length + kSide - 1) / kSide;
  return {N, heads, tiles, tiles * kThreads};
}

void attention_forward(Context& context, const AttentionForwardArgs& args) {
  check_shapes(args.qkv, args.out, args);
  check_kept(context, args);
  bodies_of(context).attention_forward(context, args);
}

void attention_backward(Context& context, const AttentionBackwardArgs& args) {
  check_shapes(args.qkv, args.out, args);
  check_shapes(args.dqkv, args.dout, args);
  check_kept(context, args);
  CHECK(args.dqkv.dtype == args.qkv.dtype && args.dqkv.data != args.qkv.data);
  bodies_of(context).attention_backward(context, args);
}

}  // namespace syncopate
