#include "models/deepfm.h"

#include <cmath>

#include "base/rng.h"
#include "layers/initialise.h"
#include "ops/interaction.h"
#include "ops/loss.h"

namespace syncopate {
namespace {

// Views rows (N, K) as one-pixel images and back; the same values in memory.
Slot as_pixels(Slot rows) {
  rows.shape = {rows.shape[0], rows.shape[1], 1, 1};
  rows.layout = Layout::kNhwc;
  return rows;
}

Slot as_rows(Slot pixels) {
  pixels.shape = {pixels.shape[0], pixels.shape[1]};
  pixels.layout = Layout::kRowMajor;
  return pixels;
}

}  // namespace

const FileNames& deepfm_names() {
  static const FileNames names{
      .whose = "syncopate",
      .hints = {{"embedding.weight",
                 "the data's fields and model.embedding must be those of the "
                 "weights"},
                {"linear.weight",
                 "the data must be those on which the weights were trained"},
                {"", "model.mlp must match the weights"}}};
  return names;
}

DeepFm::DeepFm(const ClickSpec& spec, DType compute, const DeepFmShape& shape)
    : Network(compute),
      spec_(spec),
      has_normal_first_order_(shape.has_normal_first_order),
      width_(spec.fields() * shape.embedding) {
  Registrar registrar{parameters_, buffers_};
  const int64_t rows = spec.total_rows();
  CHECK(spec.fields() > 0 && rows > 0 && shape.embedding > 0);
  if (rows > INT32_MAX)
    fail(ExitCode::kBadInput,
         "model.family: deepfm: {} rows in all fields, expected at most {}: "
         "prepare the data with a larger threshold",
         rows, INT32_MAX);
  embedding_ = registrar.parameter("embedding.weight", {rows, shape.embedding},
                                   Role::kEmbedding);
  first_ = registrar.parameter("linear.weight", {rows, 1}, Role::kEmbedding);
  bias_ = registrar.parameter("linear.bias", {1}, Role::kBias);
  int64_t width = width_;
  for (const int64_t next : shape.mlp) {
    const std::string name = fmt::format("mlp.{}", hidden_.size());
    hidden_.push_back(
        {Linear(registrar, name + ".linear", width, next),
         BatchNorm(registrar, name + ".bn", next, Activation::kRelu),
         Dropout(shape.dropout, hidden_.size()),
         {},
         {},
         {}});
    width = next;
  }
  last_.emplace(registrar, "mlp.last", width, 1);
}

std::vector<MetricInfo> DeepFm::metrics() const {
  return {{"loss", "mean log loss, nats a sample"},
          {"accuracy",
           "fraction of samples whose probability is on the right side of "
           "1/2"}};
}

void DeepFm::randomise(std::span<float> parameters,
                       std::span<float> buffers,
                       uint64_t seed) const {
  // The first-order bias does not follow a matrix.
  ParameterTable behind;
  const int64_t begin = bias_.offset + 1;
  for (const ParameterEntry& entry : parameters_.entries())
    if (entry.offset >= begin) behind.add(entry.name, entry.shape, entry.role);
  initialise_parameters(parameters.subspan(begin), behind, seed);
  initialise_buffers(buffers, buffers_);
  parameters[bias_.offset] = 0;
  uint64_t stream = uint64_t{1} << 32;  // above all indices of tensors
  const ParameterRef tables[] = {embedding_, first_};
  for (const ParameterRef& table : tables) {
    Rng rng(seed, Purpose::kInit, stream++);
    const auto values = parameters.subspan(table.offset, table.shape.elems());
    if (&table == &tables[1] && has_normal_first_order_) {
      fill_normal(values, 1, rng);
      continue;
    }
    const double bound =
        std::sqrt(6.0 / static_cast<double>(table.shape[0] + table.shape[1]));
    for (float& value : values)
      value = static_cast<float>(bound * (2 * rng.uniform() - 1));
  }
}

// Both tables have a row per value of a field.
std::vector<std::span<const int32_t>> DeepFm::lookups(
    const Batch& batch) const {
  return {2, values_of(batch.rows)};
}

double DeepFm::forward_macs() const {
  int64_t sum = 2 * width_ + last_->macs();
  for (const Hidden& hidden : hidden_) sum += hidden.linear.macs();
  return static_cast<double>(sum);
}

void DeepFm::plan(Context& context, int64_t batch, int64_t eval_batch) {
  if (context.device().kind() == DeviceKind::kCuda &&
      batch > kMostLookupsOnGpu / spec_.fields())
    fail(ExitCode::kBadInput,
         "data.batch: {}: with {} fields, on a GPU expected at most {}", batch,
         spec_.fields(), kMostLookupsOnGpu / spec_.fields());
  Network::plan(context, batch, eval_batch);
}

Batch DeepFm::largest(int64_t N) const {
  Batch batch;
  batch.samples = N;
  batch.labels = make_const_tensor(nullptr, DType::kI32, Shape{N});
  batch.rows =
      make_const_tensor(nullptr, DType::kI32, Shape{N, spec_.fields()});
  return batch;
}

void DeepFm::check(const Batch& batch) const {
  CHECK(batch.rows.dtype == DType::kI32 &&
        batch.rows.shape == Shape({batch.samples, spec_.fields()}));
  CHECK(batch.labels.dtype == DType::kI32 &&
        batch.labels.shape == Shape({batch.samples}));
}

std::string DeepFm::batch_obstacle(int64_t batch) const {
  if (batch >= 2 || hidden_.empty()) return "";
  return "BatchNorm needs two values a channel";
}

Slot DeepFm::in_compute(Walk& walk, const Slot& x) const {
  return compute() == DType::kF32 ? x : converted(walk, x, compute());
}

// Returns x itself, or a newly taken copy that replaces x, which is given back.
Slot DeepFm::in_fp32(Walk& walk, const Slot& x) const {
  if (x.dtype == DType::kF32) return x;
  const Slot y = converted(walk, x, DType::kF32);
  walk.give_back(x);
  return y;
}

Slot DeepFm::forward(Walk& walk, const Batch& batch) {
  const int64_t N = walk.samples();
  v_ = walk.take(DType::kF32, {N, width_});
  const Slot score = walk.take(DType::kF32, {N, 1});
  if (walk.is_running())
    interaction_forward(walk.context(), walk.out(v_), walk.out(score),
                        batch.rows, walk.parameter(embedding_),
                        walk.parameter(first_), walk.parameter(bias_));
  v_compute_ = compute() == DType::kF32
                   ? v_
                   : as_rows(converted_images(walk, as_pixels(v_)));
  if (compute() != DType::kF32) walk.drop(v_);
  Slot x = v_compute_;
  for (Hidden& hidden : hidden_) {
    hidden.x = x;
    hidden.c = as_pixels(hidden.linear.forward(walk, x));
    walk.drop(x);
    hidden.y = hidden.norm.forward(walk, hidden.c);
    walk.drop(hidden.c);
    hidden.dropout.apply(walk, hidden.y);
    x = as_rows(hidden.y);
  }
  last_x_ = x;
  const Slot logits = in_fp32(walk, last_->forward(walk, x));
  walk.drop(x);
  add_to(walk, logits, score);
  return logits;
}

void DeepFm::backward(Walk& walk, const Batch& batch, const Slot& dlogits) {
  const Slot dlast = in_compute(walk, dlogits);
  Slot dy = last_->backward(walk, dlast, last_x_);
  if (compute() != DType::kF32) walk.give_back(dlast);
  walk.report(last_->first_offset());
  for (auto hidden = hidden_.rbegin(); hidden != hidden_.rend(); ++hidden) {
    // dy is the gradient of the layer's y; dc reuses its memory.
    const Slot dc = as_pixels(dy);
    hidden->dropout.backward(walk, dc);
    hidden->norm.backward(walk, {dc}, hidden->c);
    walk.give_back(hidden->y);
    walk.give_back(hidden->c);
    dy = hidden->linear.backward(walk, as_rows(dc), hidden->x);
    walk.give_back(dc);
    walk.report(hidden->linear.first_offset());
  }
  if (compute() != DType::kF32) walk.give_back(v_compute_);
  const Slot dv = in_fp32(walk, dy);
  if (walk.is_running())
    interaction_backward(walk.context(), walk.gradient(embedding_),
                         walk.gradient(first_), walk.gradient(bias_),
                         walk.in(dv), walk.in(dlogits), batch.rows, walk.in(v_),
                         walk.run().touched);
  walk.give_back(dv);
  walk.give_back(dlogits);
  walk.give_back(v_);
  walk.report(0);
}

void DeepFm::loss(Walk& walk, const Batch& batch, const LossArgs& args) {
  binary_cross_entropy(walk.context(), args.sums, args.dlogits, args.logits,
                       batch.labels, args.scale);
}

}  // namespace syncopate
