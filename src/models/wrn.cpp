#include "models/wrn.h"

#include "models/resnet.h"

namespace syncopate {
namespace {

bool has_post_form(int64_t depth) {
  return depth >= 8 && depth % 6 == 2;
}
bool has_pre_form(int64_t depth) {
  return depth >= 10 && depth % 6 == 4;
}
bool has_imagenet_form(int64_t depth) {
  return depth == 50 || depth == 101;
}

void refuse_bad_options(const ModelOptions& options) {
  if (options.width < 1 || options.width > 64)
    fail(ExitCode::kBadInput, "model.width: {}: must lie in 1 .. 64",
         options.width);
  if (!(options.dropout >= 0 && options.dropout < 1))
    fail(ExitCode::kBadInput, "model.dropout: {}: must lie in [0, 1)",
         options.dropout);
  if (options.dropout > 0 && options.form != BlockForm::kPre)
    fail(ExitCode::kBadInput,
         "model.dropout: {}: the post-activation wrn has no dropout (form = "
         "pre has)",
         options.dropout);
  if (options.stem == StemForm::kImagenet && options.form != BlockForm::kPost)
    fail(ExitCode::kBadInput,
         "model.form: {}: the wrn with an imagenet stem is post-activation "
         "(form = post)",
         options.form);
}

}  // namespace

ResidualNetShape wrn_shape(const ModelOptions& options) {
  refuse_bad_options(options);
  const bool is_post = options.form == BlockForm::kPost;
  const bool has_imagenet_stem = options.stem == StemForm::kImagenet;
  bool (*has_network)(int64_t) = has_imagenet_stem ? has_imagenet_form
                                 : is_post         ? has_post_form
                                                   : has_pre_form;
  if (!has_network(options.depth))
    fail(ExitCode::kBadInput,
         "model.depth: {}: no wrn of that depth with stem {}, form {} (near: "
         "{})",
         options.depth, options.stem, options.form,
         near_depths(options.depth, has_network));

  ResidualNetShape shape;
  use_form(shape, options.form);
  shape.init = options.init;
  if (has_imagenet_stem) {
    shape.stages = imagenet_stages(options.depth, options.width);
    shape.stem.K = 64;
    use_imagenet_stem(shape);
    return shape;
  }
  for (const int64_t width : {16, 32, 64}) {
    BlockShape block{.outer = width * options.width};
    block.stride = width == 16 ? 1 : 2;
    block.dropout = static_cast<float>(options.dropout);
    shape.stages.push_back({(options.depth - (is_post ? 2 : 4)) / 6, block});
  }
  return shape;
}

}  // namespace syncopate
