#include "sync/ef_sign_sgd.h"

#include "ops/elementwise.h"
#include "sync/planned_bytes.h"

namespace syncopate {

EfSignSgd::EfSignSgd(const SchemeParts& parts)
    : SchemeBase(parts, lockstep(parts, 1), {.parameters = Owner::kShared}),
      sign_(make_compressor(context(),
                            {.kind = "sign"},
                            parts.model.parameters())),
      gather_(parts, sign_->message_words()),
      residual_(keep_range(Owner::kWorker, "residual")) {}

void EfSignSgd::update(const StepPlan& plan) {
  const std::span<float> d = direction(params_of(plan));
  times_.add(gather_.sum(*sign_, d, residual_, {}));  // nothing is random
  axpy(context(), replica().parameters, static_cast<float>(-plan.rate / size()),
       d);
}

void check_ef_sign_sgd(const SchemeRequest& request) {
  if (request.sync.wire != Wire::kF32)
    fail(ExitCode::kBadInput,
         "sync.wire: bf16 has no meaning for packed signs, expected fp32 with "
         "ef_sign_sgd");
}

std::optional<double> ef_sign_sgd_bytes(const TrafficPlan& plan) {
  return (plan.N - 1) * static_cast<double>(message_bytes(
                            {.kind = "sign"}, plan.request.parameters));
}

}  // namespace syncopate
