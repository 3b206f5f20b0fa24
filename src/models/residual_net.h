// Residual networks of every family: a stem, stages of residual blocks, the
// mean over the image, a dense classifier.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "layers/batch_norm.h"
#include "layers/block.h"
#include "layers/conv2d.h"
#include "layers/linear.h"
#include "layers/pool.h"
#include "models/classifier.h"

namespace syncopate {

// Where BatchNorm and ReLU sit.
enum class BlockForm : uint8_t {
  kPost,  // behind each convolution; stem: conv, bn, relu
  kPre,   // before each convolution; stem: conv alone, since the first block
          // begins with bn and relu; bn and relu once more before the pooling
};
enum class StemPool : uint8_t { kNone, kMax };

struct ResidualNetShape {
  BlockForm form = BlockForm::kPost;
  ConvShape stem{16, 3};
  StemPool stem_pool = StemPool::kNone;
  struct Stage {
    int64_t blocks;
    BlockShape shape;  // the stride is the first block's, others have 1
  };
  std::vector<Stage> stages;
};

class ResidualNet : public Classifier {
 public:
  ResidualNet(const ImageSpec& spec,
              DType compute,
              const ResidualNetShape& shape);
  double forward_macs() const override;

 protected:
  Slot forward(Walk& walk, const Batch& batch) override;
  void backward(Walk& walk,
                const Batch& batch,
                const Slot& dlogits,
                const GradientListener& final_from) override;
  Layout body_layout(const Device& device) const override;
  void check_batch(int64_t batch) const override;

 private:
  Slot stem_forward(Walk& walk);
  void stem_backward(Walk& walk, const Slot& dy);

  struct Stem {
    std::optional<Conv2d> conv;
    std::optional<BatchNorm> bn;
    std::optional<MaxPool> pool;
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
