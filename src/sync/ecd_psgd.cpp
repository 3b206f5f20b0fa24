#include "sync/ecd_psgd.h"

namespace syncopate {

EcdPsgd::EcdPsgd(const SchemeParts& parts) : CompressedGossip(parts) {
  const auto add = [&](double weight, std::span<float> xhat) {
    xhat_.push_back(xhat);
    mixing_.push_back({static_cast<float>(weight), xhat});
  };
  add(self_weight_, keep_range(Owner::kWorker, "xhat"));
  for (int j = 0; j < degree(); ++j)
    add(neighbours_[j].weight, keep_copy_of(j));
}

void EcdPsgd::enter() {
  CompressedGossip::enter();
  for (const std::span<float> xhat : xhat_)
    combine(context(), xhat, {{1, replica().parameters}});
}

void EcdPsgd::update(const StepPlan& plan) {
  const std::span<float> x = replica().parameters;
  const std::span<float> x_new = direction(params_of(plan));
  receive();
  add_terms(context(), x_new, static_cast<float>(-plan.rate), mixing_);
  // z overwrites x and is encoded immediately.
  const double half_t = static_cast<double>(round() + 1) / 2;
  combine(context(), x,
          {{static_cast<float>(1 - half_t), x},
           {static_cast<float>(half_t), x_new}});
  send(x);
  combine(context(), x, {{1, x_new}});
}

void EcdPsgd::take_in() {
  const double share = 2.0 / static_cast<double>(round());
  blend(xhat_[0], own(), 1 - share, share);
  for (int j = 0; j < degree(); ++j)
    blend(xhat_[1 + j], from(j), 1 - share, share);
}

}  // namespace syncopate
