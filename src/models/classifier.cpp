#include "models/classifier.h"

namespace syncopate {

Classifier::Classifier(const ImageSpec& spec, DType compute)
    : Network(compute), spec_(spec) {
  if (spec.C < 1 || spec.H < 1 || spec.W < 1 || spec.classes < 2)
    fail(ExitCode::kBadInput,
         "data: images of {} channels, {} x {}, in {} classes: a network "
         "needs at least one pixel and two classes",
         spec.C, spec.H, spec.W, spec.classes);
}

std::vector<MetricInfo> classification_metrics(int64_t classes) {
  std::vector<MetricInfo> list{
      {"loss", "mean cross-entropy of the softmax, nats a sample"},
      {"accuracy", "fraction of samples whose class has the highest score"}};
  if (classes > 5)
    list.push_back({"accuracy_top5",
                    "fraction of samples whose class is among the five "
                    "highest scores"});
  return list;
}

Batch Classifier::largest(int64_t N) const {
  return {.samples = N,
          .images = make_const_tensor(nullptr, DType::kF32,
                                      Shape{N, spec_.C, spec_.H, spec_.W},
                                      Layout::kNhwc),
          .labels = make_const_tensor(nullptr, DType::kI32, Shape{N})};
}

void Classifier::check(const Batch& batch) const {
  CHECK(batch.images.dtype == DType::kF32 &&
        batch.images.layout == Layout::kNhwc &&
        batch.images.shape ==
            Shape({batch.samples, spec_.C, spec_.H, spec_.W}));
  CHECK(batch.labels.dtype == DType::kI32 &&
        batch.labels.shape == Shape({batch.samples}));
}

void Classifier::loss(Walk& walk, const Batch& batch, const LossArgs& args) {
  softmax_cross_entropy(walk.context(), args.sums, args.dlogits, args.logits,
                        batch.labels, args.scale,
                        args.dlogits.data != nullptr ? smoothing_ : 0);
}

}  // namespace syncopate
