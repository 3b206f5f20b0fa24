#include "optim/adam.h"

#include <cmath>

#include "ops/optim_update.h"
#include "tensor/visit_numbers.h"

namespace syncopate {

Adam::Adam(Context& context,
           const OptimizerOptions& options,
           const ParameterTable& table,
           int64_t begin,
           int64_t elems)
    : options_(options),
      table_(table),
      begin_(begin),
      runs_(decay_runs(options, table, options.embedding == RowUpdates::kLazy)),
      m_(context.device(), context.stream(), elems),
      v_(context.device(), context.stream(), elems) {}

void Adam::step(Context& context,
                const Step& slice,
                const ApplyParams& params) {
  CHECK_MSG(slice.offset == begin_ && std::ssize(slice.x) == m_.size(),
            "elements {} to {} of {} to {}", slice.offset,
            slice.offset + std::ssize(slice.x), begin_, begin_ + m_.size());
  ++steps_;
  const auto correction = [this](double beta) {
    return static_cast<float>(1 - std::pow(beta, steps_));
  };
  AdamParams adam{.rate = static_cast<float>(params.rate),
                  .beta1 = static_cast<float>(options_.beta1),
                  .beta2 = static_cast<float>(options_.beta2),
                  .eps = static_cast<float>(options_.eps),
                  .rest1 = static_cast<float>(1 - options_.beta1),
                  .rest2 = static_cast<float>(1 - options_.beta2),
                  .weight_decay = 0,
                  .is_decoupled = options_.kind == "adamw",
                  .correction1 = correction(options_.beta1),
                  .correction2 = correction(options_.beta2),
                  .grad_scale = static_cast<float>(params.grad_scale),
                  .clip_factor = params.clip_factor,
                  .touched = params.touched};
  for_runs(
      runs_, slice.offset, std::ssize(slice.x),
      [&](const DecayRun& run, int64_t first, int64_t count) {
        const Step part = slice.part(first, count);
        const bool adds_decay = adam.is_decoupled || !params.is_decayed;
        adam.weight_decay = adds_decay ? run.weight_decay : 0;
        adam.lazy_row = run.row;
        // No product reads a table.
        adam.copies = run.row == 0 ? params.copies.from(first) : ShadowSlice();
        const auto m = m_.span().subspan(first, count);
        const auto v = v_.span().subspan(first, count);
        if (part.is_applied)
          adam_update(context, part.to, m, v, part.gradient, adam);
        else
          adam_direction(context, part.to, part.x, m, v, part.gradient, adam);
      });
}

std::vector<std::span<float>> Adam::state() {
  return {m_.span(), v_.span()};
}

void Adam::visit_state(StateVisitor& visitor, Owner owner) {
  visit_number(visitor, owner, "adam_steps", steps_);
  visitor.visit_device_slice(owner, "m", table_, begin_, m_);
  visitor.visit_device_slice(owner, "v", table_, begin_, v_);
}

}  // namespace syncopate
