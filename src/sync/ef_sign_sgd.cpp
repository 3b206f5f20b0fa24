// Sign compression with error feedback (Karimireddy et al. 2019, algorithm 2),
// with all workers' messages at every worker:
//
//   d_i = direction of the local optimizer     (weight decay, momentum)
//   p_i = d_i + e_i
//   q_i = |p_i|_1 / elements * sign(p_i)       by tensor
//   e_i <- p_i - q_i                           e_i = 0 at first
//   x   <- x - eta / N * sum_i q_i             in the order of ranks
//
// The memory e does not include the rate. Parameters stay bitwise equal on all
// workers; momentum and BatchNorm's running statistics are local.
#include "ops/elementwise.h"
#include "sync/compressed_gather.h"
#include "sync/kinds.h"
#include "sync/planned_bytes.h"
#include "sync/scheme_base.h"

namespace syncopate {
namespace {

class EfSignSgd final : public SchemeBase {
 public:
  explicit EfSignSgd(const SchemeParts& parts)
      : SchemeBase(parts, lockstep(parts, 1), {.parameters = Owner::kShared}),
        sign_(make_compressor(context(),
                              {.kind = "sign"},
                              parts.model.parameters())),
        gather_(parts, sign_->message_words()),
        residual_(keep_range(Owner::kWorker, "residual")) {
    unsent_ = residual_;
  }

  void update(const StepPlan& plan) override {
    const std::span<float> d = direction(own_params_of(plan));
    times_.add(gather_.sum(*sign_, d, residual_, {}));  // nothing is random
    axpy(context(), replica().parameters.write(),
         static_cast<float>(-plan.rate / size()), d);
  }

  void quiesce() override {
    SchemeBase::quiesce();
    times_.add(gather_.quiesce());
  }

 private:
  std::unique_ptr<Compressor> sign_;
  CompressedGather gather_;
  std::span<float> residual_;  // e
};

void check_ef_sign_sgd(const SchemeRequest& request) {
  refuse_bf16(request, "ef_sign_sgd", "has no meaning for packed signs");
}

std::optional<double> ef_sign_sgd_bytes(const TrafficPlan& plan) {
  return (plan.N - 1) * static_cast<double>(message_bytes(
                            {.kind = "sign"}, plan.request.parameters));
}

}  // namespace

SchemeInfo ef_sign_sgd_scheme() {
  return {.keyword = "ef_sign_sgd",
          .description = "signs of gradients averaged, with error feedback",
          .make = &make<EfSignSgd>,
          .check = &check_ef_sign_sgd,
          .planned_bytes = &ef_sign_sgd_bytes,
          .uses_collectives = true,
          .keeps_replicas_equal = true,
          .sends_to_all = true,
          .averages_gradients = true};
}

}  // namespace syncopate
