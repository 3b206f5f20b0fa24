#include "models/network.h"

#include <algorithm>
#include <bit>

#include "layers/initialise.h"

namespace syncopate {

Network::Network(DType compute) : compute_(compute) {
  CHECK(compute == DType::kF32 || compute == DType::kBf16);
}

void Network::initialise(std::span<float> parameters,
                         std::span<float> buffers,
                         uint64_t seed) const {
  CHECK(std::ssize(parameters) == parameters_.num_elems() &&
        std::ssize(buffers) == buffers_.num_elems());
  open_start();
  randomise(parameters, buffers, seed);
  if (weights_) weights_->read(parameters, parameters_, buffers, buffers_);
}

void Network::open_start() const {
  if (source_.path != "none" && !weights_)
    weights_.emplace(source_, parameters_, buffers_);
}

std::string Network::describe_start() const {
  return weights_ ? weights_->description() : "";
}

void Network::randomise(std::span<float> parameters,
                        std::span<float> buffers,
                        uint64_t seed) const {
  initialise_parameters(parameters, parameters_, seed);
  initialise_buffers(buffers, buffers_);
}

void Network::plan(Context& context, int64_t batch, int64_t eval_batch) {
  CHECK(batch >= 0 && eval_batch >= 1);
  arena_ = Arena();
  const Layout layout = body_layout(context.device());
  const DeviceKind device = context.device().kind();
  training_ = {};
  if (batch > 0) {
    const std::string obstacle = batch_obstacle(batch);
    CHECK_MSG(obstacle.empty(), "a batch of {}: {}", batch, obstacle);
    const Batch trained = largest(batch);
    training_ = {compute_, layout, rows_of(trained), {}, {}, device};
    Walk train(arena_, training_, Pass::kTrain);
    backward(train, trained, forward(train, trained));
  }
  // Statistics are recomputed over training batches, so both sizes must fit.
  const Batch seen = largest(std::max(batch, eval_batch));
  forward_only_ = {compute_, layout, rows_of(seen), {}, {}, device};
  Walk evaluate(arena_, forward_only_, Pass::kEvaluate);
  evaluate.give_back(forward(evaluate, seen));
  arena_.commit(context.device());
  sums_ = {context.device(), context.stream(), 2};
  dropout_key_ = {context.device(), context.stream(), 1};
  graphs_ = {};
}

Sequences sequences_of(const Batch& batch) {
  const auto i32 = [](const ConstTensor& tensor) {
    return static_cast<const int32_t*>(tensor.data);
  };
  return {batch.samples,      batch.tokens.shape[0], batch.max_length,
          i32(batch.offsets), i32(batch.sequences),  i32(batch.positions)};
}

std::span<const int32_t> values_of(const ConstTensor& tensor) {
  CHECK(tensor.dtype == DType::kI32);
  return {static_cast<const int32_t*>(tensor.data),
          static_cast<size_t>(tensor.elems())};
}

WalkRun Network::run_of(Context& context,
                        const ReplicaView& replica,
                        const Batch& batch) const {
  CHECK(std::ssize(replica.parameters) == parameters_.num_elems());
  CHECK(std::ssize(replica.buffers) == buffers_.num_elems());
  check(batch);
  if (replica.shadow != nullptr)
    replica.shadow->renew(context, replica.parameters);
  return {.context = context,
          .parameters = replica.parameters,
          .gradients = replica.gradients,
          .buffers = replica.buffers,
          .images = batch.images,
          .dropout_key = dropout_key_.data(),
          .sequences = sequences_of(batch),
          .copies = replica.shadow != nullptr ? replica.shadow->view()
                                              : CopiedWeights(),
          .touched = replica.touched};
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
          address(replica.touched.marks),
          address(replica.buffers.data()),
          address(replica.shadow != nullptr ? replica.shadow->view().values
                                            : nullptr),
          address(batch.recorded_input()),
          address(batch.labels.data),
          static_cast<uint64_t>(batch.samples),
          std::bit_cast<uint64_t>(settings.loss_samples),
          context.scratch_generation(),
          static_cast<uint64_t>(reports)};
}

}  // namespace

PendingSums Network::forward_backward(Context& context,
                                      const ReplicaView& replica,
                                      const Batch& batch,
                                      const StepSettings& settings,
                                      const GradientListener& final_from) {
  CHECK(std::ssize(replica.gradients) == parameters_.num_elems());
  CHECK(settings.loss_samples > 0);
  store_dropout_key(context, dropout_key_.data(),
                    {settings.dropout_seed, settings.first_sample});
  WalkRun run = run_of(context, replica, batch);
  const auto step = [&](const StepGraphs::AtPlace& at_place) {
    run.final_from = at_place;
    Walk walk(arena_, training_, Pass::kTrain, rows_of(batch), run);
    const Slot logits = forward(walk, batch);
    // The gradient of the logits overwrites them.
    loss(walk, batch,
         {.sums = sums_.data(),
          .dlogits = walk.out(logits),
          .logits = walk.in(logits),
          .scale = static_cast<float>(1 / settings.loss_samples)});
    at_place(kLossIsKnown);
    backward(walk, batch, logits);
  };
  PendingSums sums;
  const auto at_place = [&](StepGraphs::Place place) {
    if (place == kLossIsKnown)
      sums = readback_.start(context.device(), context.stream(), sums_.data(),
                             num_metrics());
    else if (final_from)
      final_from(place);
  };
  if (!settings.records || !has_one_shape()) {
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

PendingSums Network::evaluate(Context& context,
                              const ReplicaView& replica,
                              const Batch& batch) {
  const WalkRun run = run_of(context, replica, batch);
  Walk walk(arena_, forward_only_, Pass::kEvaluate, rows_of(batch), run);
  const Slot logits = forward(walk, batch);
  ClassificationSums* sums = sums_.data() + 1;
  loss(walk, batch, {.sums = sums, .logits = walk.in(logits)});
  return readback_.start(context.device(), context.stream(), sums,
                         num_metrics());
}

void Network::recompute_statistics(Context& context,
                                   const ReplicaView& replica,
                                   const Batch& batch,
                                   int64_t index) {
  WalkRun run = run_of(context, replica, batch);
  // running = (1 - m) running + m batch is the mean of all batches so far.
  run.batchnorm_momentum = static_cast<float>(1.0 / (index + 1));
  store_dropout_key(context, dropout_key_.data(),
                    {0, static_cast<uint64_t>(index * batch.samples)});
  Walk walk(arena_, forward_only_, Pass::kStatistics, rows_of(batch), run);
  forward(walk, batch);
}

void Network::predict(Context& context,
                      const ReplicaView& replica,
                      const Batch& batch,
                      std::vector<float>& scores) {
  const WalkRun run = run_of(context, replica, batch);
  Walk walk(arena_, forward_only_, Pass::kEvaluate, rows_of(batch), run);
  const ConstTensor logits = walk.in(forward(walk, batch));
  const size_t before = scores.size();
  scores.resize(before + logits.elems());
  context.device().copy(scores.data() + before, logits.data, logits.bytes(),
                        context.stream());
  context.stream().synchronize();
}

}  // namespace syncopate
