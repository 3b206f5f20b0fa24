#include "machine/measured_compute.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/median.h"
#include "base/text.h"
#include "comm/collectives.h"
#include "comm/tags.h"

namespace syncopate {
namespace {

// Differences between workers and between steps that are worth describing.
constexpr double kSameSpeed = 0.05, kSameStep = 0.01;

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(values.size());
}

// The standard deviation relative to the mean.
double relative_deviation(const std::vector<double>& values) {
  const double centre = mean(values);
  double squares = 0;
  for (const double value : values)
    squares += (value - centre) * (value - centre);
  return std::sqrt(squares / static_cast<double>(values.size())) / centre;
}

}  // namespace

std::vector<double> values_of_all(Endpoint& endpoint, double mine) {
  std::vector<double> values(endpoint.size());
  values[endpoint.rank()] = mine;
  agree(endpoint, endpoint.world_group(), values, Combine::kSum,
        tags::kControl);
  return values;
}

std::string list_of(const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (const double value : values)
    texts.push_back(fmt::format("{:.4g}", value));
  return join(texts, ", ");
}

double relative_range(const std::vector<double>& values) {
  const auto [least, most] = std::ranges::minmax(values);
  return (most - least) / median(values);
}

MeasuredCompute measured_compute(Endpoint& endpoint, const StepTimes& times) {
  std::vector<double> passes_s;
  for (size_t i = 0; i < times.forward_s.size(); ++i)
    passes_s.push_back(times.forward_s[i] + times.backward_s[i]);
  const bool has_timed = !passes_s.empty();
  MeasuredCompute found;
  found.step_s = values_of_all(endpoint, has_timed ? mean(passes_s) : 0);
  found.spread =
      values_of_all(endpoint, has_timed ? relative_deviation(passes_s) : -1);
  std::vector<double> timed_s = found.step_s;
  std::erase(timed_s, 0);
  std::erase(found.spread, -1);
  if (timed_s.empty()) fail(ExitCode::kInternal, "no worker has timed a step");
  std::ranges::replace(found.step_s, 0.0, median(timed_s));

  ComputeOptions& compute = found.options;
  compute.step_s = mean(found.step_s);
  if (relative_range(found.step_s) > kSameSpeed)
    for (const double seconds : found.step_s)
      compute.speed.push_back(compute.step_s / seconds);
  if (const double spread = median(found.spread); spread > kSameStep) {
    compute.law = StepLaw::kLognormal;
    compute.spread = spread;
  }
  return found;
}

std::vector<std::string> compute_lines(const ComputeOptions& compute) {
  std::vector<std::string> lines = {
      fmt::format("step_s = {:.4g}", compute.step_s)};
  if (compute.update_s > 0)
    lines.push_back(fmt::format("update_s = {:.4g}", compute.update_s));
  if (!compute.speed.empty())
    lines.push_back("speed = " + list_of(compute.speed));
  if (compute.law != StepLaw::kConstant) {
    lines.push_back(fmt::format("law = {}", compute.law));
    lines.push_back(fmt::format("spread = {:.3g}", compute.spread));
  }
  return lines;
}

}  // namespace syncopate
