#include "models/classifier.h"

#include <algorithm>

#include "layers/initialise.h"

namespace syncopate {

void MetricSums::add(const MetricSums& other) {
  if (values.empty()) values.assign(other.values.size(), 0);
  CHECK(values.size() == other.values.size());
  for (size_t i = 0; i < values.size(); ++i) values[i] += other.values[i];
  samples += other.samples;
}

void report(const GradientListener& final_from, int64_t offset) {
  if (final_from) final_from(offset);
}

Classifier::Classifier(const ImageSpec& spec, DType compute)
    : spec_(spec), compute_(compute) {
  CHECK(compute == DType::kF32 || compute == DType::kBf16);
  if (spec.C < 1 || spec.H < 1 || spec.W < 1 || spec.classes < 2)
    fail(ExitCode::kBadInput,
         "data: images of {} channels, {} x {}, in {} classes: a network "
         "needs at least one pixel and two classes",
         spec.C, spec.H, spec.W, spec.classes);
}

std::vector<MetricInfo> Classifier::metrics() const {
  std::vector<MetricInfo> list{
      {"loss", "mean cross-entropy of the softmax, nats a sample"},
      {"accuracy", "fraction of samples whose class has the highest score"}};
  if (spec_.classes > 5)
    list.push_back({"accuracy_top5",
                    "fraction of samples whose class is among the five "
                    "highest scores"});
  return list;
}

void Classifier::initialise(const ReplicaView& replica, uint64_t seed) const {
  initialise_parameters(replica.parameters, parameters_, seed);
  initialise_buffers(replica.buffers, buffers_);
}

void Classifier::plan(Context& context, int64_t batch, int64_t eval_batch) {
  CHECK(batch >= 1 && eval_batch >= 1);
  check_batch(batch);
  arena_ = Arena();
  const Layout layout = body_layout(context.device());
  training_ = {compute_, layout, batch, {}};
  Walk train(arena_, training_, Pass::kTrain);
  backward(train, forward(train), {});
  // Statistics are recomputed over training batches, so both sizes must fit.
  forward_only_ = {compute_, layout, std::max(batch, eval_batch), {}};
  Walk evaluate(arena_, forward_only_, Pass::kEvaluate);
  evaluate.give_back(forward(evaluate));
  arena_.commit(context.device());
}

WalkRun Classifier::run_of(Context& context,
                           const ReplicaView& replica,
                           const Batch& batch) const {
  CHECK(std::ssize(replica.parameters) == parameters_.num_elems());
  CHECK(std::ssize(replica.buffers) == buffers_.num_elems());
  CHECK(batch.images.dtype == DType::kF32 &&
        batch.images.layout == Layout::kNhwc &&
        batch.images.shape ==
            Shape({batch.samples, spec_.C, spec_.H, spec_.W}));
  CHECK(batch.labels.dtype == DType::kI32 &&
        batch.labels.shape == Shape({batch.samples}));
  return {.context = context,
          .parameters = replica.parameters,
          .gradients = replica.gradients,
          .buffers = replica.buffers,
          .images = batch.images};
}

MetricSums Classifier::sums_of(const ClassificationSums& sums) const {
  MetricSums result{{sums.loss_sum, static_cast<double>(sums.correct)},
                    static_cast<double>(sums.samples)};
  if (spec_.classes > 5)
    result.values.push_back(static_cast<double>(sums.correct_top5));
  return result;
}

MetricSums Classifier::forward_backward(Context& context,
                                        const ReplicaView& replica,
                                        const Batch& batch,
                                        const StepSettings& settings,
                                        const GradientListener& final_from) {
  CHECK(std::ssize(replica.gradients) == parameters_.num_elems());
  CHECK(settings.loss_samples > 0);
  WalkRun run = run_of(context, replica, batch);
  run.dropout_seed = settings.dropout_seed;
  run.first_sample = settings.first_sample;
  Walk walk(arena_, training_, Pass::kTrain, batch.samples, run);
  const Slot logits = forward(walk);  // (N, K)
  // The gradient of the logits takes their place.
  const ClassificationSums sums = softmax_cross_entropy(
      context, walk.out(logits), walk.in(logits), batch.labels,
      static_cast<float>(1 / settings.loss_samples));
  backward(walk, logits, final_from);
  return sums_of(sums);
}

MetricSums Classifier::evaluate(Context& context,
                                const ReplicaView& replica,
                                const Batch& batch) {
  const WalkRun run = run_of(context, replica, batch);
  Walk walk(arena_, forward_only_, Pass::kEvaluate, batch.samples, run);
  const Slot logits = forward(walk);  // (N, K)
  return sums_of(softmax_cross_entropy(context, Tensor(), walk.in(logits),
                                       batch.labels, 0));
}

void Classifier::recompute_statistics(Context& context,
                                      const ReplicaView& replica,
                                      const Batch& batch,
                                      int64_t index) {
  WalkRun run = run_of(context, replica, batch);
  // running = (1 - m) running + m batch is the mean of all batches so far.
  run.batchnorm_momentum = static_cast<float>(1.0 / (index + 1));
  run.first_sample = static_cast<uint64_t>(index * batch.samples);
  Walk walk(arena_, forward_only_, Pass::kStatistics, batch.samples, run);
  forward(walk);
}

void Classifier::predict(Context& context,
                         const ReplicaView& replica,
                         const Batch& batch,
                         std::vector<float>& scores) {
  const WalkRun run = run_of(context, replica, batch);
  Walk walk(arena_, forward_only_, Pass::kEvaluate, batch.samples, run);
  const ConstTensor logits = walk.in(forward(walk));  // (N, K)
  const size_t before = scores.size();
  scores.resize(before + logits.elems());
  context.device().copy(scores.data() + before, logits.data, logits.bytes(),
                        context.stream());
  context.stream().synchronize();
}

}  // namespace syncopate
