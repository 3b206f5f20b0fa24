// A small DeepFM on the test device. The vectors are the host's; step() and
// scores() bring them to the device and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "device/device_vector.h"
#include "models/deepfm.h"
#include "support/gradient_check.h"
#include "support/test_device.h"

namespace syncopate {

// Records of a formula, which make_deepfm_fixtures.py has too.
struct Records {
  std::vector<int32_t> rows, labels;
  static Records made(const ClickSpec& spec, int64_t samples) {
    Records list;
    for (int64_t n = 0; n < samples; ++n) {
      int64_t begin = 0;
      for (int64_t f = 0; f < spec.fields(); ++f) {
        list.rows.push_back(static_cast<int32_t>(
            begin + (n * n + 3 * n * f + f) % spec.rows[f]));
        begin += spec.rows[f];
      }
      list.labels.push_back(n % 3 == 1);
    }
    return list;
  }
};

class DeepFmBench {
 public:
  DeepFmBench(const ClickSpec& spec,
              const DeepFmShape& shape,
              int64_t batch,
              DType compute = DType::kF32)
      : on_(1),
        spec_(spec),
        model_(spec, compute, shape),
        records_(Records::made(spec, batch)),
        parameters_(model_.parameters().num_elems()),
        gradients_(parameters_.size()),
        buffers_(model_.buffers().num_elems()),
        device_rows_(on_.device, *on_.stream, std::ssize(records_.rows)),
        device_labels_(on_.device, *on_.stream, batch),
        device_parameters_(on_.device, *on_.stream, std::ssize(parameters_)),
        device_gradients_(on_.device, *on_.stream, std::ssize(parameters_)),
        device_buffers_(on_.device, *on_.stream, std::ssize(buffers_)) {
    model_.initialise(parameters_, buffers_, 7);
    model_.plan(on_.context, batch, batch);
  }

  DeepFm& model() { return model_; }

  // Samples [first, first + samples).
  Batch batch(int64_t first, int64_t samples) {
    device_rows_.assign(records_.rows);
    device_labels_.assign(records_.labels);
    Batch part;
    part.samples = samples;
    part.labels = make_const_tensor(device_labels_.data() + first, DType::kI32,
                                    {samples});
    part.rows = make_const_tensor(device_rows_.data() + first * spec_.fields(),
                                  DType::kI32, {samples, spec_.fields()});
    return part;
  }
  Batch batch() { return batch(0, std::ssize(records_.labels)); }

  // Gradients from zero; the mean loss.
  double step(const GradientListener& listener = {}) {
    std::ranges::fill(gradients_, 0.f);
    StepSettings settings;
    settings.loss_samples = double(records_.labels.size());
    settings.dropout_seed = 11;
    const MetricSums sums =
        model_
            .forward_backward(on_.context, view(), batch(), settings, listener)
            .get();
    gradients_ = values_of(device_gradients_);
    buffers_ = values_of(device_buffers_);
    return sums.values[0] / sums.samples;
  }
  std::vector<float> scores(const Batch& part) {
    std::vector<float> list;
    model_.predict(on_.context, view(), part, list);
    return list;
  }
  MetricSums evaluate() {
    return model_.evaluate(on_.context, view(), batch()).get();
  }

 private:
  test::TestContext on_;
  ClickSpec spec_;
  DeepFm model_;

 public:
  Records records_;
  std::vector<float> parameters_, gradients_, buffers_;

 private:
  ReplicaView view() {
    device_parameters_.assign(parameters_);
    device_gradients_.assign(gradients_);
    device_buffers_.assign(buffers_);
    return {device_parameters_, device_gradients_, device_buffers_};
  }
  static std::vector<float> values_of(const DeviceVector<float>& range) {
    OnHost host(range);
    return {host.values().begin(), host.values().end()};
  }
  DeviceVector<int32_t> device_rows_, device_labels_;
  DeviceVector<float> device_parameters_, device_gradients_, device_buffers_;
};

}  // namespace syncopate
