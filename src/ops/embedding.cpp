#include "ops/embedding.h"

#include "ops/bodies.h"

namespace syncopate {

void embedding_forward(Context& context,
                       Tensor y,
                       std::span<const EmbeddingInput> inputs) {
  CHECK(y.shape.rank() == 2);
  CHECK_MSG(!inputs.empty() && inputs.size() <= 3, "{} inputs", inputs.size());
  for (const EmbeddingInput& input : inputs) {
    CHECK(input.table.shape.rank() == 2 && input.table.dtype == DType::kF32);
    CHECK(input.table.shape[1] == y.shape[1]);
    CHECK(input.ids.dtype == DType::kI32);
    CHECK(input.ids.elems() == y.shape[0]);
  }
  bodies_of(context).embedding_forward(context, y, inputs);
}

void embedding_backward(Context& context,
                        Tensor dtable,
                        ConstTensor dy,
                        ConstTensor ids) {
  CHECK(dtable.shape.rank() == 2 && dtable.dtype == DType::kF32);
  CHECK(dy.shape.rank() == 2 && dy.shape[1] == dtable.shape[1]);
  CHECK(ids.dtype == DType::kI32 && ids.elems() == dy.shape[0]);
  bodies_of(context).embedding_backward(context, dtable, dy, ids);
}

}  // namespace syncopate
