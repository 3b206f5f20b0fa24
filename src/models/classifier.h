// What every image classifier shares: planning, the step around a network's
// forward and backward, and the metrics of softmax cross-entropy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "device/device_vector.h"
#include "layers/walk.h"
#include "models/model.h"
#include "models/step_graphs.h"
#include "ops/loss.h"

namespace syncopate {

class Classifier : public Model {
 public:
  Classifier(const ImageSpec& spec, DType compute);

  std::vector<MetricInfo> metrics() const override;
  void initialise(std::span<float> parameters,
                  std::span<float> buffers,
                  uint64_t seed) const override;
  void plan(Context& context, int64_t batch, int64_t eval_batch) override;
  int64_t activation_bytes() const override { return arena_.peak_bytes(); }
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
  // Logits (N, classes) fp32, newly taken. With Pass::kStatistics a network
  // may stop after its last BatchNorm.
  virtual Slot forward(Walk& walk) = 0;
  // Gives back dlogits and everything forward took; reports finished
  // gradients with falling offsets, the last one 0.
  virtual void backward(Walk& walk,
                        const Slot& dlogits,
                        const GradientListener& final_from) = 0;
  // The layout of the image activations on this device, and a refusal
  // (Error(kBadInput)) of batches that the network cannot train on.
  virtual Layout body_layout(const Device& device) const = 0;
  virtual void check_batch(int64_t batch) const = 0;

  ImageSpec spec_;

 private:
  WalkRun run_of(Context& context,
                 const ReplicaView& replica,
                 const Batch& batch) const;
  int num_metrics() const { return spec_.classes > 5 ? 3 : 2; }

  DType compute_;
  Arena arena_;
  WalkPlan training_, forward_only_;
  // In device memory: the sums of a training batch, and of any other.
  DeviceVector<ClassificationSums> sums_;
  DeviceVector<DropoutKey> dropout_key_;
  Readback readback_;
  StepGraphs graphs_;
};

// Calls a listener that may be empty.
void report(const GradientListener& final_from, int64_t offset);

}  // namespace syncopate
