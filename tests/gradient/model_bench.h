// A network with random parameters and a random batch of images.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/rng.h"
#include "gradient/network_bench.h"
#include "models/registry.h"

namespace syncopate {

class ModelBench : public NetworkBench {
 public:
  ModelBench(const ModelOptions& options,
             const ImageSpec& spec,
             int64_t batch,
             DType compute = DType::kF32)
      : NetworkBench(make_model(options, spec, compute), batch), spec_(spec) {
    // Away from gamma = 1, beta = 0, so that both matter.
    for (const ParameterEntry& entry : model().parameters().entries()) {
      if (entry.role != Role::kBatchNorm) continue;
      Rng rng(8, Purpose::kTest, static_cast<uint64_t>(entry.offset));
      for (float& value : values(entry))
        value += static_cast<float>(0.3 * rng.normal());
    }
    images_.resize(batch * spec.C * spec.H * spec.W);
    fill_normal(images_, 9);
    Rng rng(10, Purpose::kTest);
    for (int64_t n = 0; n < batch; ++n)
      labels_.push_back(static_cast<int32_t>(rng.below(spec.classes)));
    device_images_ = {on().device, *on().stream, std::ssize(images_)};
    device_labels_ = {on().device, *on().stream, batch};
  }

  // Samples [first, first + samples) of the images.
  Batch batch(int64_t first, int64_t samples) {
    const int64_t pixels = spec_.C * spec_.H * spec_.W;
    device_images_.assign(images_);
    device_labels_.assign(labels_);
    return {
        samples,
        make_const_tensor(device_images_.data() + first * pixels, DType::kF32,
                          {samples, spec_.C, spec_.H, spec_.W}, Layout::kNhwc),
        make_const_tensor(device_labels_.data() + first, DType::kI32,
                          {samples})};
  }
  Batch batch() override { return batch(0, std::ssize(labels_)); }

  std::vector<float> images_;  // (N, H, W, C)
  std::vector<int32_t> labels_;

 private:
  DeviceVector<float> device_images_;
  DeviceVector<int32_t> device_labels_;
  ImageSpec spec_;
};

}  // namespace syncopate
