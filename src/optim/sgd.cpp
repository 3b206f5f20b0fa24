#include "optim/sgd.h"

#include "ops/optim_update.h"

namespace syncopate {

Sgd::Sgd(Context& context,
         const OptimizerOptions& options,
         const ParameterTable& table,
         int64_t begin,
         int64_t elems)
    : options_(options),
      table_(table),
      begin_(begin),
      runs_(decay_runs(options, table, false)) {
  if (options.momentum > 0)
    momentum_ = {context.device(), context.stream(), elems};
}

void Sgd::step(Context& context, const Step& slice, const ApplyParams& params) {
  SgdParams sgd{
      .rate = static_cast<float>(params.rate),
      .momentum = momentum_.empty() ? 0 : static_cast<float>(params.momentum),
      .weight_decay = 0,
      .grad_scale = static_cast<float>(params.grad_scale),
      .clip_factor = params.clip_factor,
      .nesterov = options_.nesterov};
  for_runs(runs_, slice.offset, std::ssize(slice.x),
           [&](const DecayRun& run, int64_t first, int64_t count) {
             const Step part = slice.part(first, count);
             sgd.weight_decay = params.is_decayed ? 0 : run.weight_decay;
             sgd.copies = params.copies.from(first);
             std::span<float> m;
             if (!momentum_.empty())
               m = momentum_.span().subspan(part.offset - begin_, count);
             if (part.is_applied)
               sgd_update(context, part.to, m, part.gradient, sgd);
             else
               sgd_direction(context, part.to, part.x, m, part.gradient, sgd);
           });
}

std::vector<std::span<float>> Sgd::state() {
  if (momentum_.empty()) return {};
  return {momentum_.span()};
}

void Sgd::visit_state(StateVisitor& visitor, Owner owner) {
  if (!momentum_.empty())
    visitor.visit_device_slice(owner, "momentum", table_, begin_, momentum_);
}

}  // namespace syncopate
