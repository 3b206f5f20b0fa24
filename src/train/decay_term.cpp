#include "train/decay_term.h"

#include <vector>

#include "ops/reduce.h"

namespace syncopate {
namespace {

// clip_factor() computes a norm without making the host wait: with limit 1 its
// factor is 1 / (kScale norm + kEps), for norms above 1 / kScale.
constexpr double kScale = 1e6, kLimit = 1, kEps = 1e-6;

}  // namespace

DecayTerm::DecayTerm(Context& context,
                     const OptimizerOptions& options,
                     const ParameterTable& table,
                     std::span<const float> parameters)
    : weight_decay_(options.weight_decay),
      event_(context.device().make_event()) {
  std::vector<DecayRun> runs = decay_runs(options, table, false);
  std::erase_if(runs,
                [](const DecayRun& run) { return run.weight_decay == 0; });
  if (runs.empty()) return;
  Device& device = context.device();
  const auto count = static_cast<int64_t>(runs.size());
  const int64_t bytes = count * static_cast<int64_t>(sizeof(float));
  factors_ = DeviceVector<float>(device, context.stream(), count);
  arrived_ = HostBuffer(device, bytes);
  for (int64_t i = 0; i < count; ++i)
    clip_factor(
        context, factors_.data() + i,
        parameters.subspan(static_cast<size_t>(runs[i].begin),
                           static_cast<size_t>(runs[i].end - runs[i].begin)),
        kScale, kLimit);
  device.copy(arrived_.as<void>(), factors_.data(), bytes, context.stream());
  event_->record(context.stream());
}

double DecayTerm::get() const {
  const int64_t count = arrived_.bytes() / static_cast<int64_t>(sizeof(float));
  if (count > 0) event_->synchronize();
  double squares = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double norm =
        (kLimit / static_cast<double>(arrived_.as<float>()[i]) - kEps) / kScale;
    squares += norm * norm;
  }
  return 0.5 * weight_decay_ * squares;
}

}  // namespace syncopate
