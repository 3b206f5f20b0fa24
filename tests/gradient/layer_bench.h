// A layer or block alone: its tables, its plan, and the objective
// <upstream, y> with a fixed random upstream gradient, whose gradient is what
// backward computes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "layers/walk.h"
#include "support/gradient_check.h"
#include "support/test_device.h"

namespace syncopate {

// y, newly taken.
using LayerForward = std::function<Slot(Walk&, const Slot& x)>;
// dx, newly taken; gives back dy and all that forward took, not x.
using LayerBackward =
    std::function<Slot(Walk&, const Slot& dy, const Slot& x, const Slot& y)>;

class LayerBench {
 public:
  LayerBench(Layout layout, int64_t samples)
      : plan_{DType::kF32, layout, samples, {}} {}
  Registrar registrar() { return {parameter_table_, buffer_table_}; }
  const ParameterTable& table() const { return parameter_table_; }

  // `take_x` takes the input of the layer from a walk.
  void set(std::function<Slot(Walk&)> take_x,
           LayerForward forward,
           LayerBackward backward) {
    take_x_ = std::move(take_x);
    forward_ = std::move(forward);
    backward_ = std::move(backward);
    Walk walk(arena_, plan_, Pass::kTrain);
    const Slot x = take_x_(walk), y = forward_(walk, x);
    const Slot dy = walk.take(y.dtype, y.shape, y.layout);
    walk.give_back(backward_(walk, dy, x, y));
    walk.give_back(x);
    arena_.commit(on_.device);
    x_.resize(x.shape.elems());
    upstream_.resize(y.shape.elems());
    parameters_.resize(parameter_table_.num_elems());
    buffers_.resize(buffer_table_.num_elems());
    fill_normal(x_, 1);
    fill_normal(upstream_, 2);
    fill_normal(parameters_, 3);
    for (const ParameterEntry& entry : parameter_table_.entries()) {
      if (entry.role != Role::kWeight) continue;
      // Outputs of order one, so that ReLU and softmax see a spread.
      const double scale =
          std::sqrt(double(entry.shape[0]) / double(entry.elems()));
      for (int64_t i = 0; i < entry.elems(); ++i)
        parameters_[entry.offset + i] *= static_cast<float>(scale);
    }
  }

  // keep_off_kinks for every BatchNorm.
  void keep_relus_off_kinks() {
    for (const ParameterEntry& entry : parameter_table_.entries())
      if (entry.role == Role::kBatchNorm && entry.name.ends_with(".weight"))
        keep_off_kinks(values(entry), std::span(parameters_)
                                          .subspan(entry.offset + entry.elems(),
                                                   entry.elems()));
  }

  double objective() {
    const WalkRun run = settings();
    Walk walk(arena_, plan_, Pass::kTrain, plan_.samples, run);
    const Slot x = take_x_(walk);
    std::ranges::copy(x_, walk.out(x).f32());
    const Slot y = forward_(walk, x);
    const float* values = walk.in(y).f32();
    double sum = 0;
    for (size_t i = 0; i < upstream_.size(); ++i)
      sum += double{upstream_[i]} * values[i];
    return sum;
  }

  void backward() {
    gradients_.assign(parameters_.size(), 0.f);
    const WalkRun run = settings();
    Walk walk(arena_, plan_, Pass::kTrain, plan_.samples, run);
    const Slot x = take_x_(walk);
    std::ranges::copy(x_, walk.out(x).f32());
    const Slot y = forward_(walk, x);
    const Slot dy = walk.take(y.dtype, y.shape, y.layout);
    std::ranges::copy(upstream_, walk.out(dy).f32());
    const Slot dx = backward_(walk, dy, x, y);
    const float* values = walk.in(dx).f32();
    dx_.assign(values, values + x_.size());
  }

  std::span<float> x() { return x_; }
  std::span<float> dx() { return dx_; }
  std::span<float> values(const ParameterEntry& entry) {
    return std::span(parameters_).subspan(entry.offset, entry.elems());
  }
  std::span<float> gradient(const ParameterEntry& entry) {
    return std::span(gradients_).subspan(entry.offset, entry.elems());
  }

 private:
  WalkRun settings() {
    return {.context = on_.context,
            .parameters = parameters_,
            .gradients = gradients_,
            .buffers = buffers_,
            .images = {},
            .dropout_key = &dropout_key_};
  }
  const DropoutKey dropout_key_{5, 6};
  test::TestContext on_{1};
  ParameterTable parameter_table_, buffer_table_;
  Arena arena_;
  WalkPlan plan_;
  std::function<Slot(Walk&)> take_x_;
  LayerForward forward_;
  LayerBackward backward_;
  std::vector<float> x_, dx_, upstream_, parameters_, gradients_, buffers_;
};

}  // namespace syncopate
