// Optimizers over flat ranges: how a step updates parameters, given a gradient
// and a rate. They work on slices, so a server's shard is handled the same way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/choice.h"
#include "base/touched_blocks.h"
#include "ops/context.h"
#include "tensor/shadow.h"
#include "tensor/state_visitor.h"

namespace syncopate {

struct Key;

CHOICE(RowUpdates, "dense lazy", {kDense, kLazy});
CHOICE(LrScale, "none linear sqrt", {kNone, kLinear, kSqrt});

struct OptimizerOptions {
  std::string kind = "sgd";
  double lr = 0.1;
  double momentum = 0.9;                          // sgd
  bool nesterov = false;                          // sgd
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  // adam, adamw
  // How adam and adamw treat rows of an embedding table that no sample of a
  // step touched. dense: like every other parameter, moments decay and weight
  // decay acts. lazy: not at all (bias correction still counts all steps),
  // which makes the cost proportional to the rows touched, but is a different
  // optimizer.
  RowUpdates embedding = RowUpdates::kDense;
  double weight_decay = 1e-4;
  bool decay_batchnorm = true;  // false: gamma and beta of norms are exempt
  bool decay_bias = true;       // false: biases are exempt
  double clip_norm = 0;         // global norm of the gradient; 0: no clipping
  // The rate and its scaling with batch and workers: lr_eff = lr / base_batch *
  // batch * factor, or lr * sqrt(factor * batch / base_batch). With scale none,
  // lr is used unchanged.
  LrScale lr_scale = LrScale::kNone;
  std::string lr_factor = "world";  // world (workers), graph, or a number
  int64_t base_batch = 0;           // 0: the per-worker batch
};

struct ApplyParams {
  double rate;
  double momentum;                     // from the plan: schemes may change it
  double grad_scale = 1;               // 1/workers
  const float* clip_factor = nullptr;  // see ops/reduce.h; null: no clipping
  // The gradient already contains weight decay, so none is added. (AdamW's
  // decoupled decay, which is not part of the gradient, still acts.)
  bool is_decayed = false;
  // Marks of the gradient; apply() need not read unmarked rows of tables.
  TouchedBlocks touched = {};
  // apply() writes the copies of the slice as well.
  ShadowSlice copies = {};
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Updates slice [offset, offset + x.size()) of the model's range; `x` and
  // `gradient` are that slice. One pass.
  void apply(Context& context,
             int64_t offset,
             std::span<float> x,
             std::span<const float> gradient,
             const ApplyParams& params);
  // apply() without the step: direction = what apply() would multiply by the
  // rate (params.rate is unused). The state advances, x is unchanged.
  // `direction` may alias `gradient`.
  void direction(Context& context,
                 int64_t offset,
                 std::span<float> direction,
                 std::span<const float> x,
                 std::span<const float> gradient,
                 const ApplyParams& params);
  // Returns the state's ranges, each as long as the optimizer's slice, in its
  // device's memory; always the same ones in the same order.
  virtual std::vector<std::span<float>> state() = 0;
  // Returns the number of apply() or direction() calls so far if the arithmetic
  // depends on it (bias correction), else 0; transferred together with state().
  // Each step makes one call with the whole slice.
  virtual int64_t steps() const { return 0; }
  virtual void set_steps(int64_t) {}
  // Visits the ranges by the tensors of the table: "momentum/TENSOR",
  // "m/TENSOR".
  virtual void visit_state(StateVisitor& visitor, Owner owner) = 0;
  virtual int64_t state_elems() const = 0;

 protected:
  // The arguments of apply() or direction().
  struct Step {
    int64_t offset;
    std::span<float> to;  // x, or where its direction goes
    std::span<const float> x, gradient;
    bool is_applied;  // false: direction()
    Step part(int64_t first, int64_t count) const {
      return {offset + first, to.subspan(first, count), x.subspan(first, count),
              gradient.subspan(first, count), is_applied};
    }
  };
  virtual void step(Context& context,
                    const Step& slice,
                    const ApplyParams& params) = 0;
};

// Creates state for the slice [begin, begin + elems) of `table` (the whole
// range: 0, table.num_elems()) in the memory of the context. Table and context
// must outlive it.
std::unique_ptr<Optimizer> make_optimizer(Context& context,
                                          const OptimizerOptions& options,
                                          const ParameterTable& table,
                                          int64_t begin,
                                          int64_t elems);
const std::vector<std::pair<std::string, std::string>>& optimizer_table();
std::vector<Key> optimizer_keys();  // of [optimizer]

// Returns the rate after the scaling rule of `options`, for the mean batch of
// the workers, their number and, with factor graph, the size of a worker's
// neighbourhood including itself.
double scaled_rate(const OptimizerOptions& options,
                   double batch,
                   int workers,
                   int neighbours);

}  // namespace syncopate
