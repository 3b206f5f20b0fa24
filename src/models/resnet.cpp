#include "models/resnet.h"

#include <algorithm>

namespace syncopate {
namespace {

using Kind = BlockShape::Kind;

struct ImagenetBody {
  int64_t depth;
  Kind kind;
  int64_t blocks[4];
};
constexpr ImagenetBody kImagenetBodies[] = {
    // He et al. 2016a, table 1
    {18, Kind::kBasic, {2, 2, 2, 2}},
    {34, Kind::kBasic, {3, 4, 6, 3}},
    {50, Kind::kBottleneck, {3, 4, 6, 3}},
    {101, Kind::kBottleneck, {3, 4, 23, 3}},
};
constexpr int64_t kExpansion = 4;  // outer / inner width of a bottleneck

bool has_imagenet_form(int64_t depth) {
  return !imagenet_stages(depth, 1).empty();
}
bool has_cifar_form(int64_t depth) {
  return depth >= 8 && depth % 6 == 2;
}
bool has_either_form(int64_t depth) {
  return has_cifar_form(depth) || has_imagenet_form(depth);
}

BlockShape stage_block(Kind kind, int64_t width, bool is_first_stage) {
  BlockShape shape{.kind = kind, .inner = width, .outer = width};
  if (kind == Kind::kBottleneck) shape.outer *= kExpansion;
  shape.stride = is_first_stage ? 1 : 2;
  return shape;
}

// Returns three stages, each twice as wide as the previous one.
std::vector<ResidualNetShape::Stage> cifar_stages(int64_t depth,
                                                  Kind kind,
                                                  int64_t first_width) {
  std::vector<ResidualNetShape::Stage> stages;
  for (const int64_t times : {1, 2, 4})
    stages.push_back(
        {(depth - 2) / 6, stage_block(kind, times * first_width, times == 1)});
  return stages;
}

ResNetBlock block_of(Kind kind) {
  return kind == Kind::kBasic ? ResNetBlock::kBasic : ResNetBlock::kBottleneck;
}

}  // namespace

std::string near_depths(int64_t depth, bool (*has_network)(int64_t)) {
  constexpr int64_t kLargest = 10000;  // beyond all practical depths
  std::string near;
  for (int64_t below = std::min(depth, kLargest) - 1; below > 0; --below)
    if (has_network(below)) {
      near = std::to_string(below);
      break;
    }
  for (int64_t above = std::max<int64_t>(depth, 0) + 1; above < kLargest;
       ++above)
    if (has_network(above)) {
      if (!near.empty()) near += ", ";
      near += std::to_string(above);
      break;
    }
  return near;
}

std::vector<ResidualNetShape::Stage> imagenet_stages(int64_t depth,
                                                     int64_t widening) {
  for (const ImagenetBody& body : kImagenetBodies) {
    if (body.depth != depth) continue;
    std::vector<ResidualNetShape::Stage> stages;
    int64_t width = 64;
    for (const int64_t blocks : body.blocks) {
      BlockShape shape{.kind = body.kind, .inner = 0, .outer = width};
      if (body.kind == Kind::kBottleneck) {
        shape.inner = width * widening;
        shape.outer = width * kExpansion;
      }
      shape.stride = width == 64 ? 1 : 2;
      stages.push_back({blocks, shape});
      width *= 2;
    }
    return stages;
  }
  return {};
}

void use_imagenet_stem(ResidualNetShape& shape) {
  shape.stem = {shape.stem.K, 7, 2};
  shape.stem_pool = StemPool::kMax;
}

namespace {

using Stages = std::vector<ResidualNetShape::Stage>;

// Returns the published stages for the depth.
Stages published_stages(const ModelOptions& options) {
  const bool has_cifar_stem = options.stem == StemForm::kCifar;
  if (has_imagenet_form(options.depth)) {
    Stages stages = imagenet_stages(options.depth, 1);
    const Kind kind = stages.front().shape.kind;
    if (options.block != ResNetBlock::kAuto && options.block != block_of(kind))
      fail(ExitCode::kBadInput,
           "model.block: {}: resnet of depth {} is built from {} blocks "
           "(block = auto)",
           options.block, options.depth, block_of(kind));
    if (options.variant == ResNetVariant::kT2t && has_cifar_stem)
      stages.pop_back();
    return stages;
  }
  const bool may_be_cifar =
      has_cifar_stem && options.variant != ResNetVariant::kGluon;
  if (!may_be_cifar || !has_cifar_form(options.depth))
    fail(ExitCode::kBadInput,
         "model.depth: {}: no resnet of that depth with stem {} (near: {})",
         options.depth, options.stem,
         near_depths(options.depth,
                     may_be_cifar ? has_either_form : has_imagenet_form));
  Kind kind = options.depth >= 44 ? Kind::kBottleneck : Kind::kBasic;
  if (options.block != ResNetBlock::kAuto)
    kind =
        options.block == ResNetBlock::kBasic ? Kind::kBasic : Kind::kBottleneck;
  return cifar_stages(options.depth, kind,
                      options.variant == ResNetVariant::kT2t ? 32 : 16);
}

// Returns the stages as published or as given in the options.
Stages stages_of(const ModelOptions& options) {
  const bool are_given = !options.stages.empty();
  Stages stages;
  if (are_given) {
    const Kind kind = options.block == ResNetBlock::kBottleneck
                          ? Kind::kBottleneck
                          : Kind::kBasic;
    for (const double blocks : options.stages)
      stages.push_back({whole_number("stages", blocks), {.kind = kind}});
  } else {
    stages = published_stages(options);
  }
  if (options.widths.empty() && !are_given) return stages;
  if (options.widths.size() != stages.size())
    fail(ExitCode::kBadInput,
         "model.widths: {} of them, expected one for each of {} stages",
         options.widths.size(), stages.size());
  for (size_t s = 0; s < stages.size(); ++s)
    stages[s].shape =
        stage_block(stages[s].shape.kind,
                    whole_number("widths", options.widths[s]), s == 0);
  return stages;
}

// Default number of stem filters: the width of the first stage, except in the
// CIFAR form of Tensor2Tensor.
int64_t stem_filters(const ModelOptions& options, const Stages& stages) {
  if (options.stem_width > 0) return options.stem_width;
  const bool is_t2t_cifar = options.variant == ResNetVariant::kT2t &&
                            options.stages.empty() && options.widths.empty() &&
                            !has_imagenet_form(options.depth);
  if (is_t2t_cifar) return 16;
  const BlockShape& first = stages.front().shape;
  return first.kind == Kind::kBasic ? first.outer : first.inner;
}

void use_t2t(ResidualNetShape& shape, bool has_cifar_stem) {
  const Kind kind = shape.stages.front().shape.kind;
  use_form(shape, kind == Kind::kBasic ? BlockForm::kPre : BlockForm::kPost);
  shape.has_stem_norm = true;
  shape.has_final_norm = false;
  if (has_cifar_stem) shape.stem = {shape.stem.K, 7};
  shape.has_closed_stages = shape.init == Init::kT2t;
  for (ResidualNetShape::Stage& stage : shape.stages)
    stage.shape.is_projected = stage.shape.is_projection_normed = true;
}

void use_gluon(ResidualNetShape& shape, int64_t version, bool has_cifar_stem) {
  shape.has_stem_norm = !has_cifar_stem;
  shape.has_input_norm = version == 2;
  if (version == 2) return;
  for (ResidualNetShape::Stage& stage : shape.stages)
    if (stage.shape.kind == Kind::kBottleneck)
      stage.shape.is_first_strided = stage.shape.has_biases = true;
}

}  // namespace

ResidualNetShape resnet_shape(const ModelOptions& options) {
  if (options.version != 1 && options.version != 2)
    fail(ExitCode::kBadInput, "model.version: {}: not one of 1, 2",
         options.version);
  const bool has_cifar_stem = options.stem == StemForm::kCifar;
  ResidualNetShape shape;
  shape.init = options.init;
  shape.stages = stages_of(options);
  shape.stem = {stem_filters(options, shape.stages), 3};
  if (!has_cifar_stem) use_imagenet_stem(shape);
  use_form(shape, options.version == 1 ? BlockForm::kPost : BlockForm::kPre);
  if (options.variant == ResNetVariant::kT2t) use_t2t(shape, has_cifar_stem);
  if (options.variant == ResNetVariant::kGluon)
    use_gluon(shape, options.version, has_cifar_stem);
  return shape;
}

}  // namespace syncopate
