// Base of every network: planning, the step around its forward and backward,
// recording on a GPU, and transferring its sums to the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device/device_vector.h"
#include "layers/walk.h"
#include "models/model.h"
#include "models/start_weights.h"
#include "models/step_graphs.h"
#include "ops/loss.h"

namespace syncopate {

// Returns the sequences of a batch of questions; none of other batches.
Sequences sequences_of(const Batch& batch);

// Returns the values of an i32 tensor in host memory.
std::span<const int32_t> values_of(const ConstTensor& tensor);

class Network : public Model {
 public:
  explicit Network(DType compute);

  // To be called before any other: where initialise() finds its values.
  void start_from(const WeightsSource& source) { source_ = source; }

  // Random values; then those of the tensors that the file of start_from has.
  void initialise(std::span<float> parameters,
                  std::span<float> buffers,
                  uint64_t seed) const final;
  void open_start() const override;
  std::string describe_start() const override;
  void plan(Context& context, int64_t batch, int64_t eval_batch) override;
  int64_t activation_bytes() const override { return arena_.peak_bytes(); }
  const std::vector<int64_t>& gradient_reports() const override {
    return training_.reports;
  }
  const ShadowTable* copies() const override {
    return training_.copies.num_elems() > 0 ? &training_.copies : nullptr;
  }
  PendingSums forward_backward(Context& context,
                               const ReplicaView& replica,
                               const Batch& batch,
                               const StepSettings& settings,
                               const GradientListener& final_from) override;
  PendingSums evaluate(Context& context,
                       const ReplicaView& replica,
                       const Batch& batch) override;
  void recompute_statistics(Context& context,
                            const ReplicaView& replica,
                            const Batch& batch,
                            int64_t index) override;
  void predict(Context& context,
               const ReplicaView& replica,
               const Batch& batch,
               std::vector<float>& scores) override;

 protected:
  // Random initial values of all tensors; those of a parameter that is_given()
  // need not be set.
  virtual void randomise(std::span<float> parameters,
                         std::span<float> buffers,
                         uint64_t seed) const;
  // Whether a file provides the parameter with this index.
  bool is_given(int index) const { return weights_ && weights_->has(index); }
  // Returns fp32 logits, newly taken. The batch of a planning walk has sizes
  // but no data. With Pass::kStatistics a network may stop after its last
  // BatchNorm.
  virtual Slot forward(Walk& walk, const Batch& batch) = 0;
  // Gives back dlogits and everything forward took; reports finished gradients
  // (Walk::report) with decreasing offsets, the last one 0.
  virtual void backward(Walk& walk,
                        const Batch& batch,
                        const Slot& dlogits) = 0;
  // Assigns sums and, unless dlogits has no data, scale times the gradient of
  // the sum of the samples' losses; dlogits may alias logits.
  struct LossArgs {
    ClassificationSums* sums;
    Tensor dlogits = {};
    ConstTensor logits;
    float scale = 0;
  };
  virtual void loss(Walk& walk, const Batch& batch, const LossArgs& args) = 0;
  // Returns the rows of a walk (Walk::samples) for a batch: its samples, or the
  // tokens of all samples. `largest` is a batch of N samples with the most
  // rows.
  virtual int64_t rows_of(const Batch& batch) const { return batch.samples; }
  virtual Batch largest(int64_t N) const = 0;
  // Whether all batches of N samples have the same shape, so that recorded
  // steps can be replayed.
  virtual bool has_one_shape() const { return true; }
  // Checks that the network was made for this kind of batch.
  virtual void check(const Batch& batch) const = 0;
  // Returns the layout of image activations on this device.
  virtual Layout body_layout(const Device&) const { return Layout::kRowMajor; }

  DType compute() const { return compute_; }

 private:
  WalkRun run_of(Context& context,
                 const ReplicaView& replica,
                 const Batch& batch) const;
  int num_metrics() const { return static_cast<int>(metrics().size()); }

  DType compute_;
  WeightsSource source_;
  mutable std::optional<StartWeights> weights_;  // once opened
  Arena arena_;
  WalkPlan training_, forward_only_;
  // In device memory: the sums of a training batch, or of any other.
  DeviceVector<ClassificationSums> sums_;
  DeviceVector<DropoutKey> dropout_key_;
  Readback readback_;
  StepGraphs graphs_;
};

}  // namespace syncopate
