#include "ops/loss.h"

#include "ops/bodies.h"

namespace syncopate {

void softmax_cross_entropy(Context& context,
                           ClassificationSums* sums,
                           Tensor dlogits,
                           ConstTensor logits,
                           ConstTensor labels,
                           float scale,
                           float smoothing) {
  CHECK(smoothing >= 0 && smoothing < 1);
  CHECK(logits.shape.rank() == 2 && logits.dtype == DType::kF32);
  CHECK(labels.dtype == DType::kI32 && labels.elems() == logits.shape[0]);
  CHECK(dlogits.data == nullptr || dlogits.shape == logits.shape);
  bodies_of(context).softmax_cross_entropy(context, sums, dlogits, logits,
                                           labels, scale, smoothing);
}

void binary_cross_entropy(Context& context,
                          ClassificationSums* sums,
                          Tensor dlogits,
                          ConstTensor logits,
                          ConstTensor labels,
                          float scale) {
  CHECK(logits.dtype == DType::kF32 && logits.elems() == logits.shape[0]);
  CHECK(labels.dtype == DType::kI32 && labels.elems() == logits.shape[0]);
  CHECK(dlogits.data == nullptr || dlogits.shape == logits.shape);
  bodies_of(context).binary_cross_entropy(context, sums, dlogits, logits,
                                          labels, scale);
}

void span_cross_entropy(Context& context,
                        ClassificationSums* sums,
                        Tensor dlogits,
                        ConstTensor logits,
                        ConstTensor labels,
                        const Sequences& sequences,
                        float scale) {
  CHECK(logits.dtype == DType::kF32 &&
        (logits.shape == Shape{sequences.tokens, 2}));
  CHECK(labels.dtype == DType::kI32 && labels.elems() == 2 * sequences.count);
  CHECK(dlogits.data == nullptr || dlogits.shape == logits.shape);
  bodies_of(context).span_cross_entropy(context, sums, dlogits, logits, labels,
                                        sequences, scale);
}

}  // namespace syncopate
