#include "models/classifier.h"

#include <algorithm>
#include <bit>

#include "layers/initialise.h"

namespace syncopate {

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

void Classifier::initialise(std::span<float> parameters,
                            std::span<float> buffers,
                            uint64_t seed) const {
  initialise_parameters(parameters, parameters_, seed);
  initialise_buffers(buffers, buffers_);
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
  sums_ = {context.device(), context.stream(), 2};
  dropout_key_ = {context.device(), context.stream(), 1};
  graphs_ = {};
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
          .images = batch.images,
          .dropout_key = dropout_key_.data()};
}

namespace {

// The place between forward and backward; gradient offsets are >= 0.
constexpr StepGraphs::Place kLossIsKnown = -1;

StepKey key_of(const Context& context,
               const ReplicaView& replica,
               const Batch& batch,
               const StepSettings& settings,
               bool reports) {
  const auto address = [](const void* memory) {
    return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(memory));
  };
  return {address(replica.parameters.data()),
          address(replica.gradients.data()),
          address(replica.buffers.data()),
          address(batch.images.data),
          address(batch.labels.data),
          static_cast<uint64_t>(batch.samples),
          std::bit_cast<uint64_t>(settings.loss_samples),
          context.scratch_generation(),
          static_cast<uint64_t>(reports)};
}

}  // namespace

PendingSums Classifier::forward_backward(Context& context,
                                         const ReplicaView& replica,
                                         const Batch& batch,
                                         const StepSettings& settings,
                                         const GradientListener& final_from) {
  CHECK(std::ssize(replica.gradients) == parameters_.num_elems());
  CHECK(settings.loss_samples > 0);
  store_dropout_key(context, dropout_key_.data(),
                    {settings.dropout_seed, settings.first_sample});
  const WalkRun run = run_of(context, replica, batch);
  const auto step = [&](const StepGraphs::AtPlace& at_place) {
    Walk walk(arena_, training_, Pass::kTrain, batch.samples, run);
    const Slot logits = forward(walk);  // (N, K)
    // The gradient of the logits takes their place.
    softmax_cross_entropy(context, sums_.data(), walk.out(logits),
                          walk.in(logits), batch.labels,
                          static_cast<float>(1 / settings.loss_samples));
    at_place(kLossIsKnown);
    backward(walk, logits, at_place);
  };
  PendingSums sums;
  const auto at_place = [&](StepGraphs::Place place) {
    if (place == kLossIsKnown)
      sums = readback_.start(context.device(), context.stream(), sums_.data(),
                             num_metrics());
    else
      report(final_from, place);
  };
  if (!settings.records) {
    step(at_place);
    return sums;
  }
  auto next_end = settings.segment_offsets.begin();
  const auto ends_segment = [&](StepGraphs::Place place) {
    if (place == kLossIsKnown) return true;
    const auto end = settings.segment_offsets.end();
    if (next_end == end || place > *next_end) return false;
    while (next_end != end && place <= *next_end) ++next_end;
    return true;
  };
  graphs_.run(context.stream(),
              key_of(context, replica, batch, settings, final_from != nullptr),
              step, ends_segment, at_place);
  return sums;
}

PendingSums Classifier::evaluate(Context& context,
                                 const ReplicaView& replica,
                                 const Batch& batch) {
  const WalkRun run = run_of(context, replica, batch);
  Walk walk(arena_, forward_only_, Pass::kEvaluate, batch.samples, run);
  const Slot logits = forward(walk);  // (N, K)
  ClassificationSums* sums = sums_.data() + 1;
  softmax_cross_entropy(context, sums, Tensor(), walk.in(logits), batch.labels,
                        0);
  return readback_.start(context.device(), context.stream(), sums,
                         num_metrics());
}

void Classifier::recompute_statistics(Context& context,
                                      const ReplicaView& replica,
                                      const Batch& batch,
                                      int64_t index) {
  WalkRun run = run_of(context, replica, batch);
  // running = (1 - m) running + m batch is the mean of all batches so far.
  run.batchnorm_momentum = static_cast<float>(1.0 / (index + 1));
  store_dropout_key(context, dropout_key_.data(),
                    {0, static_cast<uint64_t>(index * batch.samples)});
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
