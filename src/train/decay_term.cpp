#include "train/decay_term.h"

#include <cmath>

#include "ops/reduce.h"

namespace syncopate {
namespace {

// clip_factor() is the norm for which no host waits: with limit 1 its factor
// is 1 / (kScale norm + kEps), for norms above 1 / kScale.
constexpr double kScale = 1e6, kLimit = 1, kEps = 1e-6;

}  // namespace

DecayTerm::DecayTerm(Context& context,
                     const OptimizerOptions& options,
                     const ParameterTable& table)
    : context_(context), weight_decay_(options.weight_decay) {
  for (const DecayRun& run : decay_runs(options, table, false))
    if (run.weight_decay != 0) runs_.push_back(run);
}

std::unique_ptr<DecayTerm::Pending> DecayTerm::start(
    std::span<const float> parameters) {
  auto pending = std::make_unique<Pending>();
  Device& device = context_.device();
  const auto count = static_cast<int64_t>(runs_.size());
  const int64_t bytes = count * static_cast<int64_t>(sizeof(float));
  pending->weight_decay_ = weight_decay_;
  pending->event_ = device.make_event();
  if (count > 0) {
    pending->factors_ = DeviceVector<float>(device, context_.stream(), count);
    pending->arrived_ = HostBuffer(device, bytes);
  }
  for (int64_t i = 0; i < count; ++i)
    clip_factor(
        context_, pending->factors_.data() + i,
        parameters.subspan(static_cast<size_t>(runs_[i].begin),
                           static_cast<size_t>(runs_[i].end - runs_[i].begin)),
        kScale, kLimit);
  if (count > 0)
    device.copy(pending->arrived_.as<void>(), pending->factors_.data(), bytes,
                context_.stream());
  pending->event_->record(context_.stream());
  return pending;
}

double DecayTerm::Pending::get() const {
  event_->synchronize();
  const int64_t count = arrived_.bytes() / static_cast<int64_t>(sizeof(float));
  double squares = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double norm =
        (kLimit / static_cast<double>(arrived_.as<float>()[i]) - kEps) / kScale;
    squares += norm * norm;
  }
  return 0.5 * weight_decay_ * squares;
}

}  // namespace syncopate
