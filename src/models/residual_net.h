// Residual networks of every family: a stem, stages of residual blocks, global
// average pooling, a dense classifier.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/choice.h"
#include "layers/batch_norm.h"
#include "layers/block.h"
#include "layers/conv2d.h"
#include "layers/initialise.h"
#include "layers/input_norm.h"
#include "layers/linear.h"
#include "layers/pool.h"
#include "models/classifier.h"

namespace syncopate {

// Where BatchNorm and ReLU are in a block: after or before each convolution.
CHOICE(BlockForm, "post pre", {kPost, kPre});
enum class StemPool : uint8_t { kNone, kMax };

struct ResidualNetShape {
  BlockForm form = BlockForm::kPost;
  ConvShape stem{16, 3};
  StemPool stem_pool = StemPool::kNone;
  // As in He et al. unless stated otherwise: in the post-activation form the
  // stem ends with bn and relu; in the pre-activation form the first block
  // begins with them, and they are applied once more before the pooling.
  bool has_input_norm = false;  // normalises the images, without scale and
                                // shift
  bool has_stem_norm = true;
  bool has_final_norm = false;
  struct Stage {
    int64_t blocks;
    BlockShape shape;  // the first block has the stride, others 1
  };
  std::vector<Stage> stages;
  Init init = Init::kHe;
  // Whether the last gamma of a stage's last block starts at 0 instead of 1, if
  // the stage has several blocks, so that the block is initially the identity.
  // Bottlenecks of the post-activation form only.
  bool has_closed_stages = false;
};

// torchvision's names of ResNet and Wide-ResNet, and the like for the forms
// that torchvision lacks.
const FileNames& residual_names();

// Sets the form and He's placement of norms for it.
void use_form(ResidualNetShape& shape, BlockForm form);

class ResidualNet : public Classifier {
 public:
  ResidualNet(const ImageSpec& spec,
              DType compute,
              const ResidualNetShape& shape);
  double forward_macs() const override;
  std::string batch_obstacle(int64_t batch) const override;
  void plan(Context& context, int64_t batch, int64_t eval_batch) override;

 protected:
  void randomise(std::span<float> parameters,
                 std::span<float> buffers,
                 uint64_t seed) const override;
  Slot forward(Walk& walk, const Batch& batch) override;
  void backward(Walk& walk, const Batch& batch, const Slot& dlogits) override;
  Layout body_layout(const Device& device) const override;

 private:
  void add_stages(Registrar& registrar,
                  const ResidualNetShape& shape,
                  ImageSize& size);
  Slot stem_input(Walk& walk) const;
  Slot stem_forward(Walk& walk);
  void stem_backward(Walk& walk, const GradientSum& sum);

  struct Stem {
    std::optional<Conv2d> conv;
    std::optional<BatchNorm> bn;
    std::optional<MaxPool> pool;
    std::optional<InputNorm> input_norm;
    Slot x, c, a, y;  // c = conv(x), a = relu(bn(c)) or c, y = pool(a) or a
  };
  struct PlacedBlock {
    std::unique_ptr<Block> block;
    int64_t first_offset;  // of its parameters
  };
  struct FinalNorm {
    BatchNorm bn;
    int64_t first_offset;
    Slot x, y;
  };
  Init init_;
  std::vector<std::string> closed_gammas_;  // names of the gammas that start at
                                            // 0
  std::vector<int64_t> body_channels_;
  Stem stem_;
  std::vector<PlacedBlock> blocks_;
  std::optional<FinalNorm> final_norm_;
  std::optional<GlobalAveragePool> pool_;
  std::optional<Linear> fc_;
  ImageSize body_out_;
  Slot h_;       // the last block's output
  Slot pooled_;  // (N, C)
};

}  // namespace syncopate
