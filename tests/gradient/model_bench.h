// A whole network with random parameters and a random batch of images.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "models/registry.h"
#include "support/gradient_check.h"

namespace syncopate {

class ModelBench {
 public:
  ModelBench(const ModelOptions& options,
             const ImageSpec& spec,
             int64_t batch,
             DType compute = DType::kF32)
      : device_(make_cpu_device()),
        stream_(device_->make_stream()),
        context_(*device_, *stream_, 1),
        spec_(spec),
        model_(make_model(options, spec, compute)) {
    parameters_.resize(model_->parameters().num_elems());
    gradients_.resize(parameters_.size());
    buffers_.resize(model_->buffers().num_elems());
    model_->initialise(view(), 7);
    // Away from gamma = 1, beta = 0, so that both matter.
    for (const ParameterEntry& entry : model_->parameters().entries()) {
      if (entry.role != Role::kBatchNorm) continue;
      Rng rng(8, Purpose::kTest, static_cast<uint64_t>(entry.offset));
      for (int64_t i = 0; i < entry.elems(); ++i)
        parameters_[entry.offset + i] += static_cast<float>(0.3 * rng.normal());
    }
    images_.resize(batch * spec.C * spec.H * spec.W);
    fill_normal(images_, 9);
    Rng rng(10, Purpose::kTest);
    for (int64_t n = 0; n < batch; ++n)
      labels_.push_back(static_cast<int32_t>(rng.below(spec.classes)));
    model_->plan(context_, batch, batch);
  }

  Model& model() { return *model_; }
  Context& context() { return context_; }
  ReplicaView view() { return {parameters_, gradients_, buffers_}; }

  // Samples [first, first + samples) of the images.
  Batch batch(int64_t first, int64_t samples) {
    const int64_t pixels = spec_.C * spec_.H * spec_.W;
    return {
        samples,
        make_const_tensor(images_.data() + first * pixels, DType::kF32,
                          {samples, spec_.C, spec_.H, spec_.W}, Layout::kNhwc),
        make_const_tensor(labels_.data() + first, DType::kI32, {samples})};
  }
  Batch batch() { return batch(0, std::ssize(labels_)); }

  // Gradients from zero; the mean loss.
  double step(const GradientListener& listener = {}) {
    std::ranges::fill(gradients_, 0.f);
    return accumulate(batch(), listener);
  }
  // Gradients added to what there is.
  double accumulate(const Batch& part, const GradientListener& listener = {}) {
    StepSettings settings;
    settings.loss_samples = double(labels_.size());
    settings.dropout_seed = 11;
    const MetricSums sums =
        model_->forward_backward(context_, view(), part, settings, listener);
    return sums.values[0] / double(labels_.size());
  }

  std::vector<float> scores(const Batch& part) {
    std::vector<float> list;
    model_->predict(context_, view(), part, list);
    return list;
  }

  std::vector<float> parameters_, gradients_, buffers_;
  std::vector<float> images_;  // (N, H, W, C)
  std::vector<int32_t> labels_;

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  Context context_;
  ImageSpec spec_;
  std::unique_ptr<Model> model_;
};

}  // namespace syncopate
