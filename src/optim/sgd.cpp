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

template <typename Act>
void Sgd::for_stretches(int64_t offset,
                        int64_t elems,
                        const ApplyParams& params,
                        const Act& act) {
  for_runs(
      runs_, offset, elems,
      [&](const DecayRun& run, int64_t first, int64_t count) {
        std::span<float> state;
        if (!momentum_.empty())
          state = momentum_.span().subspan(offset + first - begin_, count);
        act(first, count, state,
            SgdParams{.rate = static_cast<float>(params.rate),
                      .momentum = momentum_.empty()
                                      ? 0.0f
                                      : static_cast<float>(params.momentum),
                      .weight_decay = params.is_decayed ? 0 : run.weight_decay,
                      .grad_scale = static_cast<float>(params.grad_scale),
                      .clip_factor = params.clip_factor,
                      .nesterov = options_.nesterov});
      });
}

void Sgd::apply(Context& context,
                int64_t offset,
                std::span<float> x,
                std::span<const float> gradient,
                const ApplyParams& params) {
  for_stretches(offset, std::ssize(x), params,
                [&](int64_t first, int64_t count, std::span<float> state,
                    const SgdParams& sgd) {
                  sgd_update(context, x.subspan(first, count), state,
                             gradient.subspan(first, count), sgd);
                });
}

void Sgd::direction(Context& context,
                    int64_t offset,
                    std::span<float> direction,
                    std::span<const float> x,
                    std::span<const float> gradient,
                    const ApplyParams& params) {
  for_stretches(offset, std::ssize(x), params,
                [&](int64_t first, int64_t count, std::span<float> state,
                    const SgdParams& sgd) {
                  sgd_direction(context, direction.subspan(first, count),
                                x.subspan(first, count), state,
                                gradient.subspan(first, count), sgd);
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
