#include "ops/loss.h"

#include "ops/cpu/cpu_ops.h"
#include "ops/dispatch.h"

namespace syncopate {

ClassificationSums softmax_cross_entropy(Context& context,
                                         Tensor dlogits,
                                         ConstTensor logits,
                                         ConstTensor labels,
                                         float scale) {
  CHECK(logits.shape.rank() == 2 && logits.dtype == DType::kF32);
  CHECK(labels.dtype == DType::kI32 && labels.elems() == logits.shape[0]);
  CHECK(dlogits.data == nullptr || dlogits.shape == logits.shape);
  return on_device(cpu::softmax_cross_entropy, context, dlogits, logits, labels,
                   scale);
}

}  // namespace syncopate
