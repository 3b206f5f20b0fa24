// A network on the test device. The vectors are on the host: view() copies them
// to the device, fetch() copies gradients and buffers back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "device/device_vector.h"
#include "models/model.h"
#include "support/gradient_check.h"
#include "support/test_device.h"

namespace syncopate {

class NetworkBench {
 public:
  // For batches of `samples`.
  NetworkBench(std::unique_ptr<Model> model, int64_t samples)
      : parameters_(model->parameters().num_elems()),
        gradients_(parameters_.size()),
        buffers_(model->buffers().num_elems()),
        on_(1),
        model_(std::move(model)),
        samples_(samples) {
    model_->initialise(parameters_, buffers_, 7);
    model_->plan(context(), samples, samples);
    device_parameters_ = {context(), std::ssize(parameters_), model_->copies()};
    on_device_ = device_parameters_.write();
    for (const auto& [device, host] : ranges())
      *device = {on_.device, *on_.stream, std::ssize(*host)};
  }
  virtual ~NetworkBench() = default;

  Model& model() { return *model_; }
  test::TestContext& on() { return on_; }
  Context& context() { return on_.context; }
  ReplicaView view() {
    device_parameters_.assign(parameters_);
    for (const auto& [device, host] : ranges()) device->assign(*host);
    return {device_parameters_, device_gradients_, device_buffers_,
            &device_parameters_.shadow()};
  }
  void fetch() {
    gradients_ = values_of(device_gradients_);
    buffers_ = values_of(device_buffers_);
  }
  virtual Batch batch() = 0;  // of all samples

  // Overwrites the parameters at offset >= `from` on the device with NaN, until
  // the next view().
  void spoil_parameters(int64_t from) {
    OnHost host(on_.device, *on_.stream, on_device_.subspan(from));
    std::ranges::fill(host.values(), NAN);
    host.put_back();
  }

  std::span<float> values(const ParameterEntry& entry) {
    return std::span(parameters_).subspan(entry.offset, entry.elems());
  }
  std::span<float> gradient(const ParameterEntry& entry) {
    return std::span(gradients_).subspan(entry.offset, entry.elems());
  }

  // Gradients from zero; the mean loss.
  double step(const GradientListener& listener = {}) {
    std::ranges::fill(gradients_, 0.f);
    return accumulate(batch(), listener);
  }
  // Gradients added to what there is; this part of the mean loss of all.
  double accumulate(const Batch& part,
                    const GradientListener& listener = {},
                    uint64_t first_sample = 0) {
    StepSettings settings;
    settings.records = records_;
    settings.segment_offsets = segment_offsets_;
    settings.loss_samples = double(samples_);
    settings.dropout_seed = 11;
    settings.first_sample = first_sample;
    const auto heard = [&](int64_t from) {
      fetch();
      listener(from);
    };
    const MetricSums sums =
        model_
            ->forward_backward(context(), view(), part, settings,
                               listener ? GradientListener(heard) : nullptr)
            .get();
    fetch();
    return sums.values[0] / double(samples_);
  }
  MetricSums evaluate() {
    return model_->evaluate(context(), view(), batch()).get();
  }
  std::vector<float> scores(const Batch& part) {
    std::vector<float> list;
    model_->predict(context(), view(), part, list);
    return list;
  }

  // The error of the gradient of a step for one tensor, by directions.
  double error_of(const ParameterEntry& entry,
                  std::span<const float> gradients,
                  int directions = 2,
                  double floor = 0) {
    return directional_error(
        values(entry), gradients.subspan(entry.offset, entry.elems()),
        [this] { return step(); }, directions, floor);
  }
  // That of the first tensor, were all gradients this many times as large.
  double error_of_scaled(float factor) {
    step();
    std::vector<float> gradients = gradients_;
    for (float& gradient : gradients) gradient *= factor;
    return error_of(model_->parameters()[0], gradients);
  }

  std::vector<float> parameters_, gradients_, buffers_;
  bool records_ = false;  // of StepSettings
  std::vector<int64_t> segment_offsets_;

 private:
  std::array<std::pair<DeviceVector<float>*, std::vector<float>*>, 2> ranges() {
    return {{{&device_gradients_, &gradients_}, {&device_buffers_, &buffers_}}};
  }
  static std::vector<float> values_of(const DeviceVector<float>& range) {
    OnHost host(range);
    return {host.values().begin(), host.values().end()};
  }
  test::TestContext on_;
  ParameterValues device_parameters_;
  std::span<float> on_device_;  // its values
  DeviceVector<float> device_gradients_, device_buffers_;
  std::unique_ptr<Model> model_;
  int64_t samples_;
};

}  // namespace syncopate
