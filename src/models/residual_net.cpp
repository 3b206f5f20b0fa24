#include "models/residual_net.h"

#include <algorithm>

#include "layers/post_activation_block.h"
#include "layers/pre_activation_block.h"
#include "ops/elementwise.h"

namespace syncopate {

const FileNames& residual_names() {
  static const FileNames names{
      .whose = "torchvision",
      .rows = {{"stem.conv", "conv1"},
               {"stem.bn", "bn1"},
               {"stage#.block#.shortcut.conv", "layer#.#.downsample.0"},
               {"stage#.block#.shortcut.bn", "layer#.#.downsample.1"},
               {"stage#.block#", "layer#.#"},
               // torchvision has neither; "norm" is timm's.
               {"final.bn", "norm"},
               {"input.bn", "input_norm"}},
      .head = "fc.",
      .hints = {{"fc.",
                 "the number of classes must be that of the weights; without "
                 "fc.* in the file the classifier starts at random"},
                {"", "the keys of [model] must be those of the weights"}}};
  return names;
}

void use_form(ResidualNetShape& shape, BlockForm form) {
  shape.form = form;
  shape.has_stem_norm = form == BlockForm::kPost;
  shape.has_final_norm = form == BlockForm::kPre;
}

ResidualNet::ResidualNet(const ImageSpec& spec,
                         DType compute,
                         const ResidualNetShape& shape)
    : Classifier(spec, compute), init_(shape.init) {
  Registrar registrar{parameters_, buffers_};

  if (shape.has_input_norm)
    stem_.input_norm.emplace(registrar, "input.bn", spec.C);
  stem_.conv.emplace(registrar, "stem.conv", ImageSize{spec.C, spec.H, spec.W},
                     shape.stem);
  ImageSize size = stem_.conv->out();
  body_channels_.push_back(size.C);
  if (shape.has_stem_norm)
    stem_.bn.emplace(registrar, "stem.bn", size.C, Activation::kRelu);
  if (shape.stem_pool == StemPool::kMax) size = stem_.pool.emplace(size).out();

  add_stages(registrar, shape, size);
  body_out_ = size;

  if (shape.has_final_norm) {
    const int64_t first_offset = parameters_.num_elems();
    final_norm_ = {BatchNorm(registrar, "final.bn", size.C, Activation::kRelu),
                   first_offset,
                   {},
                   {}};
  }
  pool_.emplace(size);
  fc_.emplace(registrar, "fc", size.C, spec.classes);
}

// `size`: in, of the stem's output; out, of the last block's output.
void ResidualNet::add_stages(Registrar& registrar,
                             const ResidualNetShape& shape,
                             ImageSize& size) {
  for (size_t s = 0; s < shape.stages.size(); ++s) {
    const ResidualNetShape::Stage& stage = shape.stages[s];
    BlockShape block_shape = stage.shape;
    if (block_shape.kind == BlockShape::Kind::kBottleneck)
      body_channels_.push_back(block_shape.inner);
    body_channels_.push_back(block_shape.outer);
    for (int64_t b = 0; b < stage.blocks; ++b) {
      const std::string name = fmt::format("stage{}.block{}", s + 1, b);
      const int64_t first_offset = parameters_.num_elems();
      std::unique_ptr<Block> block;
      if (shape.form == BlockForm::kPost)
        block = std::make_unique<PostActivationBlock>(registrar, name, size,
                                                      block_shape);
      else
        block = std::make_unique<PreActivationBlock>(
            registrar, name, size, block_shape, std::ssize(blocks_));
      size = block->out();
      blocks_.push_back({std::move(block), first_offset});
      block_shape.stride = 1;
      block_shape.is_projected = false;
    }
    if (shape.has_closed_stages && shape.form == BlockForm::kPost &&
        block_shape.kind == BlockShape::Kind::kBottleneck && stage.blocks > 1)
      closed_gammas_.push_back(
          fmt::format("stage{}.block{}.bn3.weight", s + 1, stage.blocks - 1));
  }
}

void ResidualNet::randomise(std::span<float> parameters,
                            std::span<float> buffers,
                            uint64_t seed) const {
  initialise_parameters(parameters, parameters_, seed, init_);
  initialise_buffers(buffers, buffers_);
  for (const ParameterEntry& entry : parameters_.entries())
    if (std::ranges::find(closed_gammas_, entry.name) != closed_gammas_.end())
      std::ranges::fill(parameters.subspan(entry.offset, entry.elems()), 0.f);
}

void ResidualNet::plan(Context& context, int64_t batch, int64_t eval_batch) {
  if (stem_.input_norm) stem_.input_norm->plan(context);
  Classifier::plan(context, batch, eval_batch);
}

double ResidualNet::forward_macs() const {
  int64_t sum = stem_.conv->macs() + fc_->macs();
  for (const PlacedBlock& placed : blocks_) sum += placed.block->macs();
  return static_cast<double>(sum);
}

Layout ResidualNet::body_layout(const Device& device) const {
  const bool is_blocked =
      std::ranges::all_of(body_channels_, [&](int64_t channels) {
        return preferred_layout(device, compute(), channels) ==
               Layout::kNchw16c;
      });
  return is_blocked ? Layout::kNchw16c : Layout::kNhwc;
}

std::string ResidualNet::batch_obstacle(int64_t batch) const {
  if (batch * body_out_.H * body_out_.W >= 2) return "";
  return fmt::format(
      "images of {} x {} are a single pixel in the last stage, where BatchNorm "
      "needs two values a channel",
      spec_.H, spec_.W);
}

// Returns the images (N, C, H, W), or a newly taken copy, normalised and
// converted to bf16 (N, C or more, H, W).
Slot ResidualNet::stem_input(Walk& walk) const {
  const Slot images = walk.images({spec_.C, spec_.H, spec_.W});  // fp32
  const Slot x =
      stem_.input_norm ? stem_.input_norm->forward(walk, images) : images;
  if (walk.dtype() != DType::kBf16) return x;
  const Slot narrow = converted_images(walk, x);
  if (stem_.input_norm) walk.give_back(x);
  return narrow;
}

Slot ResidualNet::stem_forward(Walk& walk) {
  stem_.x = stem_input(walk);
  stem_.c = stem_.conv->forward(walk, stem_.x);  // (N, K, P, Q)
  walk.drop(stem_.x);
  stem_.a = stem_.c;
  if (stem_.bn) {
    stem_.a = stem_.bn->forward(walk, stem_.c);  // (N, K, P, Q)
    walk.drop(stem_.c);
  }
  stem_.y = stem_.a;
  if (stem_.pool) {
    stem_.y = stem_.pool->forward(walk, stem_.a);
    // Backward reads the maximum's positions and, for the ReLU, c.
    walk.give_back(stem_.a);
  }
  return stem_.y;
}

void ResidualNet::stem_backward(Walk& walk, const GradientSum& sum) {
  GradientSum da = sum;
  if (stem_.pool) {
    const Slot dy = gathered(walk, sum);
    walk.give_back(stem_.y);
    da = {stem_.pool->backward(walk, dy)};
    walk.give_back(dy);
  }
  const Slot dc =
      stem_.bn ? stem_.bn->backward(walk, da, stem_.c) : gathered(walk, da);
  if (stem_.bn && !stem_.pool) walk.give_back(stem_.a);
  if (stem_.bn || !stem_.pool) walk.give_back(stem_.c);
  stem_.conv->backward_weights(walk, dc, stem_.x);
  walk.give_back(dc);
  if (walk.dtype() == DType::kBf16 || stem_.input_norm) walk.give_back(stem_.x);
}

Slot ResidualNet::forward(Walk& walk, const Batch&) {
  h_ = stem_forward(walk);
  for (PlacedBlock& placed : blocks_) {
    const Slot y = placed.block->forward(walk, h_);
    walk.drop(h_);
    h_ = y;
  }
  Slot features = h_;  // (N, C, P, Q)
  if (final_norm_) {
    final_norm_->x = h_;
    features = final_norm_->y = final_norm_->bn.forward(walk, h_);
    walk.drop(h_);
  }
  if (walk.pass() == Pass::kStatistics) return features;
  pooled_ = pool_->forward(walk, features);  // (N, C)
  walk.drop(features);
  const Slot logits = fc_->forward(walk, pooled_);  // (N, K)
  walk.drop(pooled_);
  return logits;
}

void ResidualNet::backward(Walk& walk, const Batch&, const Slot& dlogits) {
  const Slot dpooled = fc_->backward(walk, dlogits, pooled_);  // (N, C)
  walk.give_back(dlogits);
  walk.give_back(pooled_);
  walk.report(fc_->first_offset());

  GradientSum dh{pool_->backward(walk, dpooled)};  // (N, C, P, Q)
  walk.give_back(dpooled);
  if (final_norm_) {
    final_norm_->bn.backward(walk, dh, final_norm_->x);
    walk.give_back(final_norm_->y);
    walk.report(final_norm_->first_offset);
  }
  for (size_t i = blocks_.size(); i-- > 0;) {
    dh = blocks_[i].block->backward(walk, dh);
    walk.report(blocks_[i].first_offset);
  }
  stem_backward(walk, dh);
  walk.report(0);
}

}  // namespace syncopate
