#include "models/softmax.h"

#include "models/classifier.h"
#include "ops/elementwise.h"

namespace syncopate {
namespace {

Linear make_fc(ParameterTable& parameters,
               ParameterTable& buffers,
               const VectorSpec& spec) {
  Registrar registrar{parameters, buffers};
  return {registrar, "fc", spec.width, spec.classes};
}

}  // namespace

Softmax::Softmax(const VectorSpec& spec, DType compute)
    : Network(compute),
      spec_(spec),
      fc_(make_fc(parameters_, buffers_, spec)) {}

std::vector<MetricInfo> Softmax::metrics() const {
  return classification_metrics(spec_.classes);
}

double Softmax::forward_macs() const {
  return static_cast<double>(fc_.macs());
}

Slot Softmax::forward(Walk& walk, const Batch& batch) {
  x_ = walk.take(DType::kF32, {walk.samples(), spec_.width});
  if (walk.is_running()) reorder(walk.context(), walk.out(x_), batch.vectors);
  const Slot logits = fc_.forward(walk, x_);
  walk.drop(x_);
  return logits;
}

void Softmax::backward(Walk& walk,
                       const Batch&,
                       const Slot& dlogits,
                       const GradientListener& final_from) {
  fc_.backward_parameters(walk, dlogits, x_);
  walk.give_back(dlogits);
  walk.give_back(x_);
  report(final_from, 0);
}

void Softmax::loss(Context& context,
                   ClassificationSums* sums,
                   Tensor dlogits,
                   ConstTensor logits,
                   const Batch& batch,
                   float scale) {
  softmax_cross_entropy(context, sums, dlogits, logits, batch.labels, scale);
}

Batch Softmax::largest(int64_t N) const {
  return {.samples = N,
          .labels = make_const_tensor(nullptr, DType::kI32, {N}),
          .vectors = make_const_tensor(nullptr, DType::kF32, {N, spec_.width})};
}

void Softmax::check(const Batch& batch) const {
  CHECK(batch.vectors.dtype == DType::kF32 &&
        batch.vectors.shape == Shape({batch.samples, spec_.width}));
  CHECK(batch.labels.dtype == DType::kI32 &&
        batch.labels.shape == Shape({batch.samples}));
}

}  // namespace syncopate
