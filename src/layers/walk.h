// One walk through a network: a planning walk lays out the activations, a
// running walk computes in them. Layers are written once for both, taking and
// giving back slots in the same order each time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/touched_blocks.h"
#include "ops/norm.h"
#include "ops/sequences.h"
#include "tensor/arena.h"
#include "tensor/parameter_table.h"
#include "tensor/shadow.h"

namespace syncopate {

// One sample of an image tensor.
struct ImageSize {
  int64_t C = 0, H = 0, W = 0;
  bool operator==(const ImageSize&) const = default;
};

// The place of a layer's tensor in a flat range.
struct ParameterRef {
  int64_t offset = -1;
  Shape shape;
};

// Layers register their tensors in a model's tables through this.
struct Registrar {
  ParameterTable& parameters;
  ParameterTable& buffers;
  ParameterRef parameter(const std::string& name, const Shape& shape, Role);
  ParameterRef buffer(const std::string& name, const Shape& shape);
};

enum class Pass : uint8_t {
  kTrain,       // forward that keeps what backward needs, then backward
  kEvaluate,    // forward with running statistics, nothing kept
  kStatistics,  // forward with batch statistics, nothing kept
};

// The memory of a walk: all slots in the order in which they are taken. The two
// passes that keep nothing take the same slots and share a plan.
struct WalkPlan {
  DType dtype = DType::kF32;      // of image activations
  Layout layout = Layout::kNhwc;  // of image activations
  // The largest number of rows: samples, or tokens of all samples.
  int64_t samples = 0;
  std::vector<Slot> taken;
  std::vector<int64_t> reports = {};  // the arguments of report()
  DeviceKind device = DeviceKind::kCpu;
  ShadowTable copies = {};  // of weights, which products can read
};

// The bf16 copies of a replica's weights; no table: there are none.
struct CopiedWeights {
  const ShadowTable* table = nullptr;
  const Bf16* values = nullptr;
};

// Inputs of a running walk.
struct WalkRun {
  Context& context;
  std::span<const float> parameters;
  std::span<float> gradients;  // Pass::kTrain only
  std::span<float> buffers;
  ConstTensor images;  // (N, C, H, W) fp32 NHWC
  float batchnorm_momentum = kBatchNormMomentum;
  // Device memory; null if nothing is dropped.
  const DropoutKey* dropout_key = nullptr;
  Sequences sequences = {};  // if the rows are tokens
  // Called by Walk::report(); may be empty.
  std::function<void(int64_t from)> final_from = {};
  CopiedWeights copies = {};
  TouchedBlocks touched = {};  // of the gradients
};

class Walk {
 public:
  // A planning walk: fills `plan.taken` from the arena.
  Walk(Arena& arena, WalkPlan& plan, Pass pass);
  // A running walk of `samples` <= plan.samples over a committed arena.
  Walk(const Arena& arena,
       const WalkPlan& plan,
       Pass pass,
       int64_t samples,
       const WalkRun& run);

  Pass pass() const { return pass_; }
  bool is_running() const { return run_ != nullptr; }
  int64_t samples() const { return samples_; }
  DType dtype() const { return plan_.dtype; }
  DeviceKind device() const { return plan_.device; }
  bool is_on_gpu() const { return device() == DeviceKind::kCuda; }

  Slot take(DType dtype, const Shape& shape, Layout layout = Layout::kRowMajor);
  Slot take_image(const ImageSize& size);               // (N, C, H, W)
  Slot take_image(const ImageSize& size, DType dtype);  // layout of the body
  void give_back(const Slot& slot);
  // Gives back a slot that only backward would read again; keeps it in kTrain.
  void drop(const Slot& slot);

  // The batch itself, in the caller's memory: read with in(), never given back.
  Slot images(const ImageSize& size) const;

  // Says, in a planning walk, that a weight or bias is multiplied with, or
  // added to, x: on a GPU a copy can be kept if x is bf16.
  void keep_copy(const ParameterRef& ref, const Slot& x);

  // Running walks only.
  const WalkRun& run() const;
  Context& context() const { return run().context; }
  ConstTensor in(const Slot& slot) const;
  Tensor out(const Slot& slot) const;
  ConstTensor parameter(const ParameterRef& ref) const;
  ConstWeight weight(const ParameterRef& ref) const;  // and its copy
  Tensor gradient(const ParameterRef& ref) const;
  Tensor buffer(const ParameterRef& ref) const;

  // Reports that backward has finished the gradients at offsets >= `from`.
  void report(int64_t from) const;

 private:
  static constexpr int64_t kImagesOffset = -2;
  const Arena& arena_;
  const WalkPlan& plan_;
  Arena* planned_arena_ = nullptr;  // both are set in a planning walk
  WalkPlan* planned_ = nullptr;
  Pass pass_;
  int64_t samples_;
  const WalkRun* run_ = nullptr;
  size_t next_ = 0;
};

// sum += term; gives back the term.
void add_to(Walk& walk, const Slot& sum, const Slot& term);

// The gradient of an activation that has one or two readers. BatchNorm adds the
// two while it reads them; others want gathered().
struct GradientSum {
  Slot first;
  std::optional<Slot> second = {};
};
// Returns the sum in the memory of its first term; gives back the second.
Slot gathered(Walk& walk, const GradientSum& sum);

// Returns x as `dtype`, newly taken.
Slot converted(Walk& walk, const Slot& x, DType dtype);

// Returns images (N, C, H, W) as bf16, newly taken; on a GPU with zeros as
// channels up to a multiple of eight, which tensor cores need.
Slot converted_images(Walk& walk, const Slot& x);

}  // namespace syncopate
