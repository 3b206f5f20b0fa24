#include "sync/ef_sign_sgd.h"

#include "ops/elementwise.h"
#include "sync/planned_bytes.h"

namespace syncopate {

EfSignSgd::EfSignSgd(const SchemeParts& parts)
    : SchemeBase(parts,
                 lockstep(parts, 1),
                 {.parameters = Owner::kShared,
                  .buffers = Owner::kWorker,
                  .optimizer = Owner::kWorker}),
      sign_(make_compressor(context(),
                            {.kind = "sign"},
                            parts.model.parameters())),
      gather_(parts, sign_->message_words()),
      residual_(context().device(), context().stream(), sign_->elems()) {}

void EfSignSgd::update(const StepPlan& plan) {
  const Replica& mine = replica();
  mine.optimizer->direction(context(), 0, mine.gradients, mine.parameters,
                            mine.gradients,
                            {.rate = plan.rate,
                             .momentum = plan.momentum,
                             .grad_scale = 1,
                             .clip_factor = clip(1)});
  const std::span<uint32_t> message = gather_.own(sign_->message_words());
  axpy(context(), residual_, 1, mine.gradients);
  sign_->encode(context(), message, residual_, {});  // nothing is random
  sign_->blend(context(), residual_, message, 1, -1);
  times_.add(gather_.exchange(sign_->message_words()));
  gather_.sum(*sign_, mine.gradients);
  axpy(context(), mine.parameters, static_cast<float>(-plan.rate / size()),
       mine.gradients);
}

void EfSignSgd::visit_state(StateVisitor& visitor) {
  SchemeBase::visit_state(visitor);
  visitor.visit_device_range(Owner::kWorker, "residual",
                             parts_.model.parameters(), residual_);
}

std::unique_ptr<Scheme> make_ef_sign_sgd(const SchemeParts& parts) {
  return std::make_unique<EfSignSgd>(parts);
}

std::string ef_sign_sgd_obstacle(const SchemeRequest& request) {
  if (request.sync.wire != Wire::kF32)
    return "sync.wire: bf16 has no meaning for packed signs, expected fp32 "
           "with "
           "ef_sign_sgd";
  return "";
}

std::optional<double> ef_sign_sgd_bytes(const TrafficPlan& plan) {
  return (plan.N - 1) * static_cast<double>(message_bytes(
                            {.kind = "sign"}, plan.request.parameters));
}

}  // namespace syncopate
