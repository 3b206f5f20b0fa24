// How cuDNN will compute one convolution: chosen by its heuristics, never by
// timing, so that a run depends on the library's version and the hardware
// only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "library/descriptor.h"
#include "ops/conv.h"

namespace syncopate::cuda {

enum class ConvPass : uint8_t { kForward, kBackwardData, kBackwardWeights };
const char* name_of(ConvPass pass);

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

// What plans are made for: the device of a handle or, without one, a device
// that is described (a finalized CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR; such
// plans cannot be executed).
struct PlanTarget {
  cudnnHandle_t handle = nullptr;
  const Descriptor* device = nullptr;
};

class ConvPlan {
 public:
  // Pointers aligned to this many bytes may be given to run().
  static constexpr int64_t kAlignment = 16;

  // The first engine of the heuristics that keeps the problem's promises.
  // Throws Error(kInternal) where cuDNN has none.
  ConvPlan(const PlanTarget& target, const ConvProblem& problem);

  int64_t workspace_bytes() const { return workspace_bytes_; }
  // What the chosen engine does to numbers, as cuDNN declares it.
  std::vector<cudnnBackendNumericalNote_t> notes() const;
  void run(cudnnHandle_t handle,
           const void* x,
           const void* w,
           const void* y,
           void* workspace) const;

 private:
  bool take_first_of(const PlanTarget& target,
                     const ConvProblem& problem,
                     cudnnBackendHeurMode_t mode);

  // All that the plan refers to lives as long as it does.
  std::vector<Descriptor> parts_;  // tensors, convolution, operation
  Descriptor graph_;
  std::optional<Descriptor> config_, plan_;
  int64_t workspace_bytes_ = 0;
};

}  // namespace syncopate::cuda
