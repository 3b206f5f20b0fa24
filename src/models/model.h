// A network as the engine sees it: tables of its flat ranges, and a step.
//
// The model owns activations and plans but no parameters: those come with each
// call as a ReplicaView, so one model (one arena, one set of primitives) serves
// every worker of a process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/touched_blocks.h"
#include "data/batch.h"
#include "models/pending_sums.h"
#include "models/shadow_weights.h"
#include "ops/context.h"
#include "tensor/parameter_table.h"

namespace syncopate {

// One worker's ranges, in the order of the model's tables and in the memory of
// the device that the model was planned on.
struct ReplicaView {
  std::span<const float> parameters;
  std::span<float> gradients;  // same shape; accumulated by backward
  std::span<float> buffers;
  // Renewed if they are stale; null: weights are rounded at each use.
  ShadowWeights* shadow = nullptr;
  TouchedBlocks touched = {};  // of the gradients: see marks_tables()
};

// Called during backward when every gradient at offset >= `from` is final and
// no parameter there is read again; on a GPU, when the work that does so has
// been submitted to the stream. Offsets decrease monotonically; the last call
// has from == 0.
using GradientListener = std::function<void(int64_t from)>;

struct MetricInfo {
  std::string name;         // "loss", "accuracy", "accuracy_top5"
  std::string description;  // for results.h5
  std::string unit = "1";   // or "%"
};

struct StepSettings {
  // Divisor of the loss: accumulates the gradient of (1 / loss_samples) * sum
  // of sample losses. Equals the batch size times the number of accumulated
  // batches.
  double loss_samples = 1;
  uint64_t dropout_seed = 0;
  // The batch's position among all samples of the run: dropout's counter.
  uint64_t first_sample = 0;
  // cuda: steps are recorded and replayed. Backward is split into one segment
  // per offset, at which the caller starts something (decreasing; the same at
  // every call). Empty: one segment. Gradients are reported in the same order,
  // at the end of a segment.
  bool records = false;
  std::span<const int64_t> segment_offsets = {};
};

class Model {
 public:
  virtual ~Model() = default;

  const ParameterTable& parameters() const { return parameters_; }
  const ParameterTable& buffers() const { return buffers_; }
  // Keeps only a part of each parameter (see thinned), for measurements of what
  // is done with them after a step. The model can no longer take steps.
  void thin(double share) { parameters_ = thinned(parameters_, share); }

  // metrics()[0] is always the loss.
  virtual std::vector<MetricInfo> metrics() const = 0;

  // Sets initial values from a seed, the same on every worker. Host memory.
  virtual void initialise(std::span<float> parameters,
                          std::span<float> buffers,
                          uint64_t seed) const = 0;

  // Opens the file that initialise() reads, if any, so that mistakes are
  // reported before anything starts: Error(kBadInput), Error(kInputMissing).
  // Without this call, initialise() opens it.
  virtual void open_start() const {}
  // Describes the initial values, once opened; "" if there is only one choice.
  virtual std::string describe_start() const { return ""; }

  // Returns why the network cannot train on batches of that many samples; "" if
  // it can.
  virtual std::string batch_obstacle(int64_t /*batch*/) const { return ""; }

  // Plans activations for training batches of up to `batch` samples (0: there
  // is no training) and evaluation batches of up to `eval_batch`, and allocates
  // them once.
  virtual void plan(Context& context, int64_t batch, int64_t eval_batch) = 0;
  virtual int64_t activation_bytes() const = 0;  // after plan()
  // The offsets that every backward pass reports, in order (GradientListener);
  // after plan().
  virtual const std::vector<int64_t>& gradient_reports() const = 0;

  // The bf16 copies of weights that its steps can read, after plan(). Null:
  // none, as on a CPU or in fp32.
  virtual const ShadowTable* copies() const { return nullptr; }

  // Returns, for each embedding table (Role::kEmbedding) in the order of
  // parameters(), the numbers of the rows that a batch in host memory reads,
  // with repetitions. The spans point into the batch.
  virtual std::vector<std::span<const int32_t>> lookups(const Batch&) const {
    return {};
  }

  // Whether backward marks the blocks of embedding tables (Role::kEmbedding)
  // that it adds to, so that all others need not be looked at.
  virtual bool marks_tables() const { return false; }

  // Runs forward and backward on one mini-batch, accumulating gradients and
  // updating running statistics. `final_from` may be empty (for all but the
  // last accumulated batch). Batches are in the memory of the device. Does not
  // wait for the device.
  virtual PendingSums forward_backward(Context& context,
                                       const ReplicaView& replica,
                                       const Batch& batch,
                                       const StepSettings& settings,
                                       const GradientListener& final_from) = 0;

  // Computes a batch's metrics with running statistics and without dropout.
  // Does not wait for the device.
  virtual PendingSums evaluate(Context& context,
                               const ReplicaView& replica,
                               const Batch& batch) = 0;

  // Recomputes running statistics: forward in training mode, statistics only,
  // with weight 1/(index+1) for the index-th batch (an exact average).
  virtual void recompute_statistics(Context& context,
                                    const ReplicaView& replica,
                                    const Batch& batch,
                                    int64_t index) = 0;

  // Appends a batch's scores, row-major, to `scores` (host): class scores (N,
  // K), logits of first and last token (T, 2), or click logits (N).
  virtual void predict(Context& context,
                       const ReplicaView& replica,
                       const Batch& batch,
                       std::vector<float>& scores) = 0;

  // Multiply-adds of one forward pass per sample, for throughput figures.
  virtual double forward_macs() const = 0;

 protected:
  ParameterTable parameters_, buffers_;
};

}  // namespace syncopate
