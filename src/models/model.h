// A network as the engine sees it: tables of its flat ranges, and a step.
//
// The model owns activations and plans, never parameters: those come with each
// call as a ReplicaView, so that one model (one arena, one set of primitives)
// serves every worker of a process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "data/batch.h"
#include "models/pending_sums.h"
#include "ops/context.h"
#include "tensor/parameter_table.h"

namespace syncopate {

// One worker's ranges, in the order of the model's tables, in the memory of
// the device that the model was planned on.
struct ReplicaView {
  std::span<float> parameters;
  std::span<float> gradients;  // same shape; accumulated by backward
  std::span<float> buffers;
};

// Called during backward when every gradient at offset >= `from` is final, on
// a GPU: when the work that makes it so has been given to the stream.
// Offsets fall monotonically; the last call has from == 0.
using GradientListener = std::function<void(int64_t from)>;

struct MetricInfo {
  std::string name;         // "loss", "accuracy", "accuracy_top5"
  std::string description;  // for results.h5
  std::string unit = "1";   // or "%"
};

struct StepSettings {
  // The gradient of (1 / loss_samples) * sum of sample losses is accumulated:
  // batch size, times the number of accumulated batches.
  double loss_samples = 1;
  uint64_t dropout_seed = 0;
  // The batch's place among all samples of the run: dropout's counter.
  uint64_t first_sample = 0;
  // cuda: steps are recorded and replayed; backward is one segment for each
  // of these offsets, where the caller has something to start (falling; the
  // same at every call). Empty: one segment. Gradients are reported in the
  // same order, at the end of a segment.
  bool records = false;
  std::span<const int64_t> segment_offsets = {};
};

class Model {
 public:
  virtual ~Model() = default;

  const ParameterTable& parameters() const { return parameters_; }
  const ParameterTable& buffers() const { return buffers_; }

  // metrics()[0] is always the loss.
  virtual std::vector<MetricInfo> metrics() const = 0;

  // First values from a seed, the same on every worker. Host memory.
  virtual void initialise(std::span<float> parameters,
                          std::span<float> buffers,
                          uint64_t seed) const = 0;

  // Opens the file that initialise() reads, if there is one, so that a mistake
  // is told before anything starts: Error(kBadInput), Error(kInputMissing).
  // Without it initialise() does so.
  virtual void open_start() const {}
  // What the first values are, once that is open: "" where there is but one
  // way.
  virtual std::string describe_start() const { return ""; }

  // Plans activations for training batches of up to `batch` samples and
  // evaluation batches of up to `eval_batch`, allocates them once.
  virtual void plan(Context& context, int64_t batch, int64_t eval_batch) = 0;
  virtual int64_t activation_bytes() const = 0;  // after plan()

  // Forward and backward of one mini-batch; gradients are accumulated, running
  // statistics updated. `final_from` may be empty (all but the last
  // accumulated batch). Batches lie in the memory of the device, as everything
  // does; nothing waits for it.
  virtual PendingSums forward_backward(Context& context,
                                       const ReplicaView& replica,
                                       const Batch& batch,
                                       const StepSettings& settings,
                                       const GradientListener& final_from) = 0;

  // Metrics of a batch with running statistics and without dropout; nothing
  // waits for them.
  virtual PendingSums evaluate(Context& context,
                               const ReplicaView& replica,
                               const Batch& batch) = 0;

  // Recomputes running statistics: forward in training mode, statistics only,
  // with weight 1/(index+1) for the index-th batch (an exact average).
  virtual void recompute_statistics(Context& context,
                                    const ReplicaView& replica,
                                    const Batch& batch,
                                    int64_t index) = 0;

  // What a batch is judged by, row-major, appended to `scores` (host): class
  // scores (N, K), logits of first and last token (T, 2), logits of a click
  // (N).
  virtual void predict(Context& context,
                       const ReplicaView& replica,
                       const Batch& batch,
                       std::vector<float>& scores) = 0;

  // Multiply-adds of one forward pass of one sample, for throughput figures.
  virtual double forward_macs() const = 0;

 protected:
  ParameterTable parameters_, buffers_;
};

}  // namespace syncopate
