// Elastic averaging SGD (Zhang, Choromanska & LeCun 2015), synchronous:
//
//   x_i <- optimizer_i(x_i, g_i)                H times, own optimizer state
//   d_i  = beta/N (x_i - c)                     c: the centre, x_0 at first
//   x_i <- x_i - d_i
//   c   <- c + sum_i d_i = c + beta (mean of x - c)
//
// Unlike in the paper's algorithm 1, the gradient of the step after an exchange
// is that of the x_i which the exchange leaves; there it is that of the x_i
// before, and both changes are added.
//
// The paper reports the centre: eval.model = centre. BatchNorm's running
// statistics stay local; the centre is evaluated with their mean.
#include "keys/key.h"
#include "ops/combine.h"
#include "sync/kinds.h"
#include "sync/planned_bytes.h"
#include "sync/scheme_base.h"

namespace syncopate {
namespace {

class Easgd final : public SchemeBase {
 public:
  explicit Easgd(const SchemeParts& parts)
      : SchemeBase(parts,
                   lockstep_in_rounds(parts, parts.sync.easgd.steps),
                   {}),
        centre_(keep_range(Owner::kShared, "centre")),
        mean_(make_range(std::ssize(centre_))) {}

  void enter() override {
    combine(context(), centre_, {{1, replica().parameters}});
  }

  void update(const StepPlan& plan) override { step_locally(plan); }
  void end_step(const StepPlan& plan) override {
    if ((plan.step + 1) % parts_.sync.easgd.steps != 0) return;
    const std::span<float> x = replica().parameters.write();
    combine(context(), mean_, {{1, x}});
    average(world_, {{mean_}});
    const auto beta = static_cast<float>(parts_.sync.easgd.beta);
    const float alpha = beta / static_cast<float>(size());
    combine(context(), x, {{1 - alpha, x}, {alpha, centre_}});
    combine(context(), centre_, {{1 - beta, centre_}, {beta, mean_}});
  }

  void evaluation_model(EvalModel which,
                        std::span<float> parameters,
                        std::span<float> buffers) override {
    const bool is_centre = which == EvalModel::kCentre;
    SchemeBase::evaluation_model(is_centre ? EvalModel::kAverage : which,
                                 parameters, buffers);
    if (is_centre) combine(context(), parameters, {{1, centre_}});
  }

 private:
  std::span<float> centre_;
  DeviceVector<float> mean_;
};

Keys easgd_keys() {
  return within(
      &SyncOptions::easgd,
      {
          {.name = "easgd.steps",
           .place = &EasgdOptions::steps,
           .doc = "Local steps between two exchanges with the centre.",
           .low = 1},
          {.name = "easgd.beta",
           .place = &EasgdOptions::beta,
           .doc = "Fraction by which the centre moves towards the mean of "
                  "the workers.",
           .low = 0,
           .high = 1,
           .is_low_open = true},
      });
}

std::optional<double> easgd_bytes(const TrafficPlan& plan) {
  return plan.all_reduce(plan.N, plan.D, Wire::kF32) /
         static_cast<double>(plan.request.sync.easgd.steps);
}

}  // namespace

SchemeInfo easgd_scheme() {
  return {.keyword = "easgd",
          .description =
              "elastic averaging: parameters drawn towards a "
              "common centre",
          .make = &make<Easgd>,
          .check =
              [](const SchemeRequest& request) {
                refuse_bf16(request, "easgd",
                            "would round small changes of parameters away");
              },
          .keys = &easgd_keys,
          .planned_bytes = &easgd_bytes,
          .reduces_ranges = true,
          .has_centre = true,
          .uses_collectives = true,
          .steps_of_round =
              [](const SyncOptions& sync) { return sync.easgd.steps; }};
}

}  // namespace syncopate
