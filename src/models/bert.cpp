#include "models/bert.h"

#include <algorithm>

#include "base/rng.h"
#include "layers/initialise.h"
#include "ops/attention.h"

namespace syncopate {
namespace {

// Rejects sizes that a network cannot have; the bounds keep products in
// int64_t.
void refuse_bad_sizes(const ModelOptions& options) {
  const auto within = [](const char* key, int64_t value, int64_t most) {
    if (value < 1 || value > most)
      fail(ExitCode::kBadInput, "model.{}: {}: must lie in 1 .. {}", key, value,
           most);
  };
  within("layers", options.layers, 1000);
  within("hidden", options.hidden, 65536);
  within("heads", options.heads, options.hidden);
  within("positions", options.positions, 65536);
  if (options.intermediate != 0)
    within("intermediate", options.intermediate, 1 << 20);
  if (options.hidden % options.heads != 0)
    fail(ExitCode::kBadInput,
         "model.hidden: {}: must be a multiple of model.heads = {} (near: {})",
         options.hidden, options.heads,
         (options.hidden / options.heads + 1) * options.heads);
  const auto is_probability = [](const char* key, double p) {
    if (!(p >= 0 && p < 1))
      fail(ExitCode::kBadInput, "model.{}: {}: must lie in [0, 1)", key, p);
  };
  is_probability("hidden_dropout", options.hidden_dropout);
  is_probability("attention_dropout", options.attention_dropout);
}

void refuse_bad_data(const ModelOptions& options, const QuestionSpec& spec) {
  CHECK(spec.vocabulary >= 1 && spec.max_length >= 1);
  if (spec.max_length > options.positions)
    fail(ExitCode::kBadInput,
         "model.positions: {}: sequences of the data have up to {} tokens, and "
         "each needs a position",
         options.positions, spec.max_length);
}

TokenIds ids_of(const Batch& batch) {
  return {batch.tokens, batch.segments, batch.positions};
}

}  // namespace

const FileNames& bert_names() {
  static const FileNames names{
      .whose = "Hugging Face",
      .head = "qa_outputs.",
      .prefix = "bert.",
      .hints = {
          {"word_embeddings", "the vocabulary must be that of the weights"},
          {"position_embeddings",
           "model.positions and model.hidden must be those of the weights"},
          {"",
           "model.layers, hidden and intermediate must be those of the "
           "weights"}}};
  return names;
}

Bert::Bert(const ModelOptions& options, const QuestionSpec& spec, DType compute)
    : Network(compute), spec_(spec) {
  refuse_bad_sizes(options);
  head_columns_ = options.hidden / options.heads;
  refuse_bad_data(options, spec);
  Registrar registrar{parameters_, buffers_};
  const int64_t H = options.hidden;
  const auto dropout = static_cast<float>(options.hidden_dropout);
  uint64_t place = 0;
  embeddings_.emplace(
      registrar, "bert.embeddings",
      EmbeddingsShape{H, spec.vocabulary, options.positions, dropout}, place++);
  const SelfAttentionShape attention{
      H, options.heads, static_cast<float>(options.attention_dropout), dropout,
      spec.max_length};
  const FeedForwardShape feed_forward{
      H, options.intermediate > 0 ? options.intermediate : 4 * H, dropout};
  const Keep keep = options.recompute ? Keep::kInput : Keep::kAll;
  for (int64_t l = 0; l < options.layers; ++l) {
    layers_.emplace_back(registrar, "bert.encoder.layer." + std::to_string(l),
                         attention, feed_forward, keep, place);
    place += TransformerLayer::kPlaces;
  }
  head_.emplace(registrar, "qa_outputs", H, 2);
}

std::vector<std::span<const int32_t>> Bert::lookups(const Batch& batch) const {
  return {values_of(batch.tokens)};
}

std::vector<MetricInfo> Bert::metrics() const {
  return {{"loss",
           "mean of the cross-entropies of an answer's first and last token, "
           "nats a sample"},
          {"accuracy",
           "fraction of samples whose answer's first and last token both have "
           "the highest score"}};
}

void Bert::randomise(std::span<float> parameters,
                     std::span<float>,
                     uint64_t seed) const {
  constexpr double kDeviation = 0.02;
  for (int index = 0; index < parameters_.num_tensors(); ++index) {
    if (is_given(index)) continue;
    const ParameterEntry& entry = parameters_[index];
    const auto values = parameters.subspan(entry.offset, entry.elems());
    if (entry.role == Role::kBias || entry.role == Role::kLayerNorm) {
      const bool is_gamma =
          entry.role == Role::kLayerNorm && entry.name.ends_with(".weight");
      std::ranges::fill(values, is_gamma ? 1.f : 0.f);
      continue;
    }
    fill_normal(values, kDeviation,
                Rng(seed, Purpose::kInit, static_cast<uint64_t>(index)));
  }
}

void Bert::plan(Context& context, int64_t batch, int64_t eval_batch) {
  if (context.device().kind() == DeviceKind::kCuda &&
      head_columns_ > kMostHeadColumnsOnGpu)
    fail(ExitCode::kBadInput,
         "model.heads: makes heads of {} columns of model.hidden; on a GPU "
         "expected at most {}",
         head_columns_, kMostHeadColumnsOnGpu);
  Network::plan(context, batch, eval_batch);
}

std::string Bert::describe_start() const {
  const std::string start = Network::describe_start();
  return start.empty() ? "random weights (model.weights = FILE starts from "
                         "published ones)"
                       : start;
}

double Bert::forward_macs() const {
  const int64_t L = spec_.max_length;
  int64_t macs = L * head_->macs();
  for (const TransformerLayer& layer : layers_) macs += layer.macs(L);
  return static_cast<double>(macs);
}

int64_t Bert::rows_of(const Batch& batch) const {
  return batch.tokens.shape[0];
}

Batch Bert::largest(int64_t N) const {
  const int64_t T = N * spec_.max_length;
  const auto i32 = [](const Shape& shape) {
    return make_const_tensor(nullptr, DType::kI32, shape);
  };
  return {.samples = N,
          .labels = i32({N, 2}),
          .tokens = i32({T}),
          .segments = i32({T}),
          .positions = i32({T}),
          .sequences = i32({T}),
          .offsets = i32({N + 1}),
          .max_length = spec_.max_length};
}

void Bert::check(const Batch& batch) const {
  const auto is_i32 = [](const ConstTensor& tensor, const Shape& shape) {
    return tensor.dtype == DType::kI32 && tensor.shape == shape;
  };
  const int64_t N = batch.samples, T = batch.tokens.shape[0];
  CHECK(batch.max_length >= 1 && batch.max_length <= spec_.max_length);
  CHECK(T >= N && T <= N * batch.max_length);
  for (const ConstTensor* tensor :
       {&batch.tokens, &batch.segments, &batch.positions, &batch.sequences})
    CHECK(tensor->data != nullptr && is_i32(*tensor, {T}));
  CHECK(is_i32(batch.offsets, {N + 1}) && is_i32(batch.labels, {N, 2}));
}

Slot Bert::forward(Walk& walk, const Batch& batch) {
  inputs_.clear();
  Slot x = embeddings_->forward(walk, ids_of(batch));
  for (TransformerLayer& layer : layers_) {
    inputs_.push_back(x);
    x = layer.forward(walk, x);
    walk.drop(inputs_.back());
  }
  head_input_ = x;
  if (walk.dtype() != DType::kF32) {
    // The scores are not rounded to bf16: there are few, and softmax follows.
    head_input_ = converted(walk, x, DType::kF32);
    walk.give_back(x);
  }
  const Slot logits = head_->forward(walk, head_input_);
  walk.drop(head_input_);
  return logits;
}

void Bert::backward(Walk& walk, const Batch& batch, const Slot& dlogits) {
  Slot dx = head_->backward(walk, dlogits, head_input_);
  walk.give_back(dlogits);
  walk.give_back(head_input_);
  walk.report(head_->first_offset());
  if (walk.dtype() != DType::kF32) {
    const Slot narrow = converted(walk, dx, walk.dtype());
    walk.give_back(dx);
    dx = narrow;
  }
  for (size_t l = layers_.size(); l-- > 0;) {
    dx = layers_[l].backward(walk, dx, inputs_[l]);
    walk.give_back(inputs_[l]);
    walk.report(layers_[l].first_offset());
  }
  embeddings_->backward(walk, dx, ids_of(batch));
  walk.report(0);
}

void Bert::loss(Walk& walk, const Batch& batch, const LossArgs& args) {
  span_cross_entropy(walk.context(), args.sums, args.dlogits, args.logits,
                     batch.labels, walk.run().sequences, args.scale);
}

}  // namespace syncopate
