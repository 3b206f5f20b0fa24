// A whole network on the test device, with random parameters and a random
// batch of images. The vectors are the host's: view() and batch() bring them
// to the device, fetch() brings gradients and buffers back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "device/device_vector.h"
#include "models/registry.h"
#include "support/gradient_check.h"
#include "support/test_device.h"

namespace syncopate {

class ModelBench {
 public:
  ModelBench(const ModelOptions& options,
             const ImageSpec& spec,
             int64_t batch,
             DType compute = DType::kF32)
      : on_(1), spec_(spec), model_(make_model(options, spec, compute)) {
    parameters_.resize(model_->parameters().num_elems());
    gradients_.resize(parameters_.size());
    buffers_.resize(model_->buffers().num_elems());
    model_->initialise(parameters_, buffers_, 7);
    for (const auto& [device, host] : ranges())
      *device = {on_.device, *on_.stream, std::ssize(*host)};
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
    device_images_ = {on_.device, *on_.stream, std::ssize(images_)};
    device_labels_ = {on_.device, *on_.stream, batch};
    model_->plan(context(), batch, batch);
  }

  Model& model() { return *model_; }
  Context& context() { return on_.context; }
  ReplicaView view() {
    for (const auto& [device, host] : ranges()) device->assign(*host);
    return {device_parameters_, device_gradients_, device_buffers_};
  }
  void fetch() {
    gradients_ = values_of(device_gradients_);
    buffers_ = values_of(device_buffers_);
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
  Batch batch() { return batch(0, std::ssize(labels_)); }

  // Gradients from zero; the mean loss.
  double step(const GradientListener& listener = {}) {
    std::ranges::fill(gradients_, 0.f);
    return accumulate(batch(), listener);
  }
  // Gradients added to what there is.
  double accumulate(const Batch& part, const GradientListener& listener = {}) {
    StepSettings settings;
    settings.records = records_;
    settings.segment_offsets = segment_offsets_;
    settings.loss_samples = double(labels_.size());
    settings.dropout_seed = 11;
    const MetricSums sums =
        model_
            ->forward_backward(context(), view(), part, settings,
                               listener ? GradientListener([&](int64_t from) {
                                 fetch();
                                 listener(from);
                               })
                                        : GradientListener())
            .get();
    fetch();
    return sums.values[0] / double(labels_.size());
  }

  std::vector<float> scores(const Batch& part) {
    std::vector<float> list;
    model_->predict(context(), view(), part, list);
    return list;
  }

  std::vector<float> parameters_, gradients_, buffers_;
  std::vector<float> images_;  // (N, H, W, C)
  std::vector<int32_t> labels_;
  bool records_ = false;  // of StepSettings
  std::vector<int64_t> segment_offsets_;

 private:
  std::array<std::pair<DeviceVector<float>*, std::vector<float>*>, 3> ranges() {
    return {{{&device_parameters_, &parameters_},
             {&device_gradients_, &gradients_},
             {&device_buffers_, &buffers_}}};
  }
  static std::vector<float> values_of(const DeviceVector<float>& range) {
    OnHost host(range);
    return {host.values().begin(), host.values().end()};
  }
  test::TestContext on_;
  DeviceVector<float> device_parameters_, device_gradients_, device_buffers_;
  DeviceVector<float> device_images_;
  DeviceVector<int32_t> device_labels_;
  ImageSpec spec_;
  std::unique_ptr<Model> model_;
};

}  // namespace syncopate
