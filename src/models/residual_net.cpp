#include "models/residual_net.h"

#include <algorithm>

#include "layers/post_activation_block.h"
#include "layers/pre_activation_block.h"
#include "ops/elementwise.h"

namespace syncopate {

ResidualNet::ResidualNet(const ImageSpec& spec,
                         DType compute,
                         const ResidualNetShape& shape)
    : Classifier(spec, compute) {
  Registrar registrar{parameters_, buffers_};
  const bool is_post = shape.form == BlockForm::kPost;

  stem_.conv.emplace(registrar, "stem.conv", ImageSize{spec.C, spec.H, spec.W},
                     shape.stem);
  ImageSize size = stem_.conv->out();
  body_channels_.push_back(size.C);
  if (is_post)
    stem_.bn.emplace(registrar, "stem.bn", size.C, Activation::kRelu);
  if (shape.stem_pool == StemPool::kMax) size = stem_.pool.emplace(size).out();

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
      if (is_post)
        block = std::make_unique<PostActivationBlock>(registrar, name, size,
                                                      block_shape);
      else
        block = std::make_unique<PreActivationBlock>(
            registrar, name, size, block_shape, std::ssize(blocks_));
      size = block->out();
      blocks_.push_back({std::move(block), first_offset});
      block_shape.stride = 1;
    }
  }
  body_out_ = size;

  if (!is_post) {
    const int64_t first_offset = parameters_.num_elems();
    final_norm_ = {BatchNorm(registrar, "final.bn", size.C, Activation::kRelu),
                   first_offset,
                   {},
                   {}};
  }
  pool_.emplace(size);
  fc_.emplace(registrar, "fc", size.C, spec.classes);
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

void ResidualNet::check_batch(int64_t batch) const {
  if (batch * body_out_.H * body_out_.W < 2)
    fail(ExitCode::kBadInput,
         "data.batch: 1: images of {} x {} are a single pixel in the last "
         "stage, where BatchNorm needs two values a channel (data.batch >= 2)",
         spec_.H, spec_.W);
}

// The images may be given in fp32 or, converted once, in bf16.
Slot ResidualNet::stem_forward(Walk& walk) {
  stem_.x = walk.images({spec_.C, spec_.H, spec_.W});  // (N, C, H, W) fp32
  if (walk.dtype() == DType::kBf16) {
    const Slot images = stem_.x;
    stem_.x = walk.take(DType::kBf16, images.shape, Layout::kNhwc);
    if (walk.is_running())
      reorder(walk.context(), walk.out(stem_.x), walk.in(images));
  }
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
    // The maximum's backward reads positions, not values; a ReLU's reads y.
    if (stem_.bn)
      walk.drop(stem_.a);
    else
      walk.give_back(stem_.a);
  }
  return stem_.y;
}

void ResidualNet::stem_backward(Walk& walk, const Slot& dy) {
  Slot da = dy;
  if (stem_.pool) {
    walk.give_back(stem_.y);
    da = stem_.pool->backward(walk, dy);
    walk.give_back(dy);
  }
  if (stem_.bn) {
    stem_.bn->backward(walk, da, stem_.c, stem_.a);
    walk.give_back(stem_.a);
  }
  if (stem_.bn || !stem_.pool) walk.give_back(stem_.c);
  stem_.conv->backward_weights(walk, da, stem_.x);
  walk.give_back(da);
  if (walk.dtype() == DType::kBf16) walk.give_back(stem_.x);
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

void ResidualNet::backward(Walk& walk,
                           const Batch&,
                           const Slot& dlogits,
                           const GradientListener& final_from) {
  const Slot dpooled = fc_->backward(walk, dlogits, pooled_);  // (N, C)
  walk.give_back(dlogits);
  walk.give_back(pooled_);
  report(final_from, fc_->first_offset());

  Slot dh = pool_->backward(walk, dpooled);  // (N, C, P, Q)
  walk.give_back(dpooled);
  if (final_norm_) {
    final_norm_->bn.backward(walk, dh, final_norm_->x, final_norm_->y);
    walk.give_back(final_norm_->y);
    report(final_from, final_norm_->first_offset);
  }
  for (size_t i = blocks_.size(); i-- > 0;) {
    dh = blocks_[i].block->backward(walk, dh);
    report(final_from, blocks_[i].first_offset);
  }
  stem_backward(walk, dh);
  report(final_from, 0);
}

}  // namespace syncopate
