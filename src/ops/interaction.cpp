#include "ops/interaction.h"

#include "ops/bodies.h"

namespace syncopate {

// Checks x (N, F * D), score (N, 1) and rows (N, F) of a batch, with rows of D
// elements.
static void check_shapes(const ConstTensor& x,
                         const ConstTensor& score,
                         const ConstTensor& rows,
                         const ConstTensor& embedding,
                         const ConstTensor& first) {
  CHECK(rows.shape.rank() == 2 && rows.dtype == DType::kI32);
  CHECK(embedding.shape.rank() == 2 && embedding.dtype == DType::kF32);
  const int64_t N = rows.shape[0], F = rows.shape[1];
  CHECK(x.dtype == DType::kF32 &&
        x.shape == (Shape{N, F * embedding.shape[1]}));
  CHECK(score.dtype == DType::kF32 && score.elems() == N);
  CHECK(first.dtype == DType::kF32 && first.elems() == embedding.shape[0]);
}

void interaction_forward(Context& context,
                         Tensor x,
                         Tensor score,
                         ConstTensor rows,
                         ConstTensor embedding,
                         ConstTensor first,
                         ConstTensor bias) {
  check_shapes(x, score, rows, embedding, first);
  CHECK(bias.dtype == DType::kF32 && bias.elems() == 1);
  bodies_of(context).interaction_forward(context, x, score, rows, embedding,
                                         first, bias);
}

void interaction_backward(Context& context,
                          Tensor dembedding,
                          Tensor dfirst,
                          Tensor dbias,
                          ConstTensor dx,
                          ConstTensor dscore,
                          ConstTensor rows,
                          ConstTensor x,
                          const TouchedBlocks& touched) {
  check_shapes(x, dscore, rows, dembedding, dfirst);
  CHECK(dx.dtype == DType::kF32 && dx.shape.rank() == 2 &&
        dx.shape[0] == x.shape[0] && dx.shape[1] >= x.shape[1]);
  CHECK(dbias.dtype == DType::kF32 && dbias.elems() == 1);
  bodies_of(context).interaction_backward(context, dembedding, dfirst, dbias,
                                          dx, dscore, rows, x, touched);
}

}  // namespace syncopate
