// Stochastic gradient push (Assran et al. 2019, algorithm 1) over a directed
// exponential graph with one peer per step: in step t a worker sends to the one
// 2^(t mod ceil(log2 N)) ranks ahead.
//
//   x_i <- x_i - eta d(z_i)
//   x_i <- x_i / 2 + x_j / 2,   w_i <- w_i / 2 + w_j / 2     j sends to i
//   z_i  = x_i / w_i
//
// The replica is z, the de-biased model at which gradients are taken and which
// is evaluated; the numerator is w z, and w starts at 1. Columns of the mixing
// matrix sum to 1, so the sum of all numerators is preserved and the sum of all
// w is N. On this graph everyone gets one message per round, so w is 1 after
// each. With sync.wire = bf16 a worker keeps what rounding did not send.
#include <bit>

#include "ops/combine.h"
#include "ops/elementwise.h"
#include "sync/exchange.h"
#include "sync/kinds.h"
#include "sync/planned_bytes.h"
#include "sync/scheme_base.h"

namespace syncopate {
namespace {

// 2^(round mod ceil(log2 workers))
int distance(int64_t round, int workers) {
  const int kinds = std::bit_width(static_cast<unsigned>(workers - 1));
  return 1 << (round % kinds);
}

class Sgp final : public SchemeBase {
 public:
  explicit Sgp(const SchemeParts& parts)
      : SchemeBase(parts, lockstep(parts, kLoosePeriod), {}),
        exchange_(parts,
                  parts.replica.parameters.write(),
                  1,
                  wire_,
                  Traffic::kPayload) {
    keep(Owner::kWorker, "round", round_);
    keep(Owner::kWorker, "weight", weight_);
  }

  void enter() override {
    round_ = 0;
    weight_ = 1;
  }

  void update(const StepPlan& plan) override {
    const std::span<float> x = replica().parameters.write();
    const std::span<float> d = direction(params_of(plan));
    if (size() == 1)
      return axpy(context(), x, static_cast<float>(-plan.rate), d);

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

  void quiesce() override {
    SchemeBase::quiesce();
    times_.add(exchange_.quiesce());
  }

  std::vector<SeriesInfo> series() const override {
    return {{.name = "push_sum_weight",
             .unit = "1",
             .description = "what a worker's numerator is divided by"}};
  }

  std::vector<double> take_series() override { return {weight_}; }

 private:
  NeighbourExchange exchange_;
  int64_t round_ = 0;
  double weight_ = 1;  // w
};

// The model, and the weight w that is sent with it.
std::optional<double> sgp_bytes(const TrafficPlan& plan) {
  return plan.value_bytes() * static_cast<double>(plan.D) + 8;
}

}  // namespace

SchemeInfo sgp_scheme() {
  return {.keyword = "sgp",
          .description =
              "stochastic gradient push: the model, at half weight, "
              "to one peer per step",
          .make = &make<Sgp>,
          .planned_bytes = &sgp_bytes,
          .uses_wire = true,
          .uses_collectives = true};
}

}  // namespace syncopate
