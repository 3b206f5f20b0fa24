// How cuDNN computes a convolution: by its heuristics, so that a run depends
// only on the library's version and the hardware, or by one of the plans that
// they list, which ops/plans.h chooses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "library/convolve.h"
#include "library/descriptor.h"

namespace syncopate::cuda {

// One pass over dense tensors of one dtype: x (N, H, W, C), filters
// (K, R, S, C), y (N, P, Q, K); products are summed in fp32. fp32 tensors are
// multiplied in fp32 (no TF32).
struct ConvProblem {
  ConvPass pass;
  ConvSize size;
  DType dtype;  // kF32, kBf16
  Determinism determinism;
  bool operator==(const ConvProblem&) const = default;
};

// What plans are made for: the device of a handle or, without one, a described
// device (a finalized CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR; such plans cannot be
// executed).
struct PlanTarget {
  cudnnHandle_t handle = nullptr;
  const Descriptor* device = nullptr;
};

class ConvPlan {
 public:
  // Alignment in bytes that run() requires of pointers.
  static constexpr int64_t kAlignment = 16;

  // Takes the first engine of the heuristics that meets the requirements.
  // Throws Error(kInternal) if cuDNN has none.
  ConvPlan(const PlanTarget& target, const ConvProblem& problem);

  // Returns at most `most` such plans, the expected fastest first; at least
  // one. They come from cuDNN's heuristics of mode A, then B, then from its
  // fallback engines; names differ.
  static std::vector<ConvPlan> list(const PlanTarget& target,
                                    const ConvProblem& problem,
                                    size_t most);

  int64_t workspace_bytes() const { return workspace_bytes_; }
  const std::string& engine() const { return engine_; }  // "cuDNN engine 47"
  // Engine and settings, "engine 47 k2=1 k5=0": differs between plans.
  std::string name() const;
  // Numerical properties of the chosen engine, as cuDNN declares them.
  std::vector<cudnnBackendNumericalNote_t> notes() const;
  void run(cudnnHandle_t handle,
           const void* x,
           const void* w,
           const void* y,
           void* workspace) const;

 private:
  // Everything that the plan refers to lives as long as the plan.
  struct Graph {
    std::vector<Descriptor> parts;  // tensors, convolution, operation
    Descriptor whole;
  };
  ConvPlan(std::shared_ptr<const Graph> graph,
           Descriptor config,
           Descriptor plan);
  static std::shared_ptr<const Graph> make_graph(const PlanTarget& target,
                                                 const ConvProblem& problem);

  std::shared_ptr<const Graph> graph_;
  Descriptor config_, plan_;
  int64_t workspace_bytes_ = 0;
  std::string engine_;
};

}  // namespace syncopate::cuda
