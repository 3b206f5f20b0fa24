#include "sync/sgp.h"

#include <bit>

#include "ops/combine.h"
#include "ops/elementwise.h"
#include "sync/planned_bytes.h"

namespace syncopate {
namespace {

// Agreeing on stops must not couple workers more tightly than peers do.
constexpr int64_t kPeriod = 8;

// 2^(round mod ceil(log2 workers))
int distance(int64_t round, int workers) {
  const int kinds = std::bit_width(static_cast<unsigned>(workers - 1));
  return 1 << (round % kinds);
}

}  // namespace

Sgp::Sgp(const SchemeParts& parts)
    : SchemeBase(parts, lockstep(parts, kPeriod), {}),
      exchange_(parts, parts.replica.parameters, 1, wire_, Traffic::kPayload) {
  keep(Owner::kWorker, "round", round_);
  keep(Owner::kWorker, "weight", weight_);
}

void Sgp::enter() {
  round_ = 0;
  weight_ = 1;
}

void Sgp::update(const StepPlan& plan) {
  const std::span<float> x = replica().parameters;
  const std::span<float> d = direction(params_of(plan));
  if (size() == 1) return axpy(context(), x, static_cast<float>(-plan.rate), d);

  const int hop = distance(round_++, size());
  const int to = (rank() + hop) % size();
  const int from = (rank() + size() - hop) % size();
  // Half of the numerator w z - eta d stays, the other half is sent.
  combine(context(), x,
          {{static_cast<float>(weight_ / 2), x},
           {static_cast<float>(-plan.rate / 2), d}});
  exchange_.start(std::span(&to, 1), std::span(&from, 1), weight_ / 2);
  times_.add(exchange_.finish());
  combine(context(), x,
          {{2, x}, {-1, exchange_.sent()}, {1, exchange_.incoming(0)}});
  weight_ = weight_ / 2 + exchange_.note(0);
  if (weight_ != 1) scale(context(), x, static_cast<float>(1 / weight_));
}

std::vector<SeriesInfo> Sgp::series() const {
  return {{.name = "push_sum_weight",
           .unit = "1",
           .description = "what a worker's numerator is divided by"}};
}

// The model, and the weight w that is sent with it.
std::optional<double> sgp_bytes(const TrafficPlan& plan) {
  return plan.value_bytes() * static_cast<double>(plan.D) + 8;
}

}  // namespace syncopate
