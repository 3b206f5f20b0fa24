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

std::vector<ResidualNetShape::Stage> cifar_stages(int64_t depth, Kind kind) {
  std::vector<ResidualNetShape::Stage> stages;
  for (const int64_t width : {16, 32, 64}) {
    BlockShape shape{.kind = kind, .inner = width, .outer = width};
    if (kind == Kind::kBottleneck) shape.outer *= kExpansion;
    shape.stride = width == 16 ? 1 : 2;
    stages.push_back({(depth - 2) / 6, shape});
  }
  return stages;
}

const char* keyword_of(Kind kind) {
  return kind == Kind::kBasic ? "basic" : "bottleneck";
}

}  // namespace

void refuse_choice(const std::string& key,
                   const std::string& value,
                   const std::string& choices) {
  fail(ExitCode::kBadInput, "{}: {}: not one of {}", key, value, choices);
}

std::string near_depths(int64_t depth, bool (*has_network)(int64_t)) {
  constexpr int64_t kLargest = 10000;  // nobody trains deeper ones
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
  shape.stem = {64, 7, 2};
  shape.stem_pool = StemPool::kMax;
}

ResidualNetShape resnet_shape(const ModelOptions& options) {
  const bool has_cifar_stem = options.stem == "cifar";
  if (!has_cifar_stem && options.stem != "imagenet")
    refuse_choice("model.stem", options.stem, "cifar, imagenet");
  if (options.version != 1 && options.version != 2)
    refuse_choice("model.version", std::to_string(options.version), "1, 2");
  if (options.block != "auto" && options.block != "basic" &&
      options.block != "bottleneck")
    refuse_choice("model.block", options.block, "auto, basic, bottleneck");

  ResidualNetShape shape;
  shape.form = options.version == 1 ? BlockForm::kPost : BlockForm::kPre;
  if (has_imagenet_form(options.depth)) {
    shape.stages = imagenet_stages(options.depth, 1);
    const Kind kind = shape.stages.front().shape.kind;
    if (options.block != "auto" && options.block != keyword_of(kind))
      fail(ExitCode::kBadInput,
           "model.block: {}: resnet of depth {} is built from {} blocks "
           "(block = auto)",
           options.block, options.depth, keyword_of(kind));
    shape.stem = {64, 3};
    if (!has_cifar_stem) use_imagenet_stem(shape);
    return shape;
  }
  if (!has_cifar_stem || !has_cifar_form(options.depth))
    fail(ExitCode::kBadInput,
         "model.depth: {}: no resnet of that depth with stem {} (near: {})",
         options.depth, options.stem,
         near_depths(options.depth,
                     has_cifar_stem ? has_either_form : has_imagenet_form));
  Kind kind = options.depth >= 44 ? Kind::kBottleneck : Kind::kBasic;
  if (options.block != "auto")
    kind = options.block == "basic" ? Kind::kBasic : Kind::kBottleneck;
  shape.stages = cifar_stages(options.depth, kind);
  return shape;
}

}  // namespace syncopate
