#include "support/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace syncopate {
namespace {

double root_mean_square(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * value;
  return std::sqrt(sum / std::max<size_t>(1, values.size()));
}

// Returns (f(values + h d) - f(values - h d)) / (2 h) - gradient . d, the
// smallest over the steps h.
double smallest_difference(std::span<float> values,
                           std::span<const float> gradient,
                           const std::vector<float>& direction,
                           const Objective& objective) {
  // Relative to the values; the floor is for all-zero values.
  const double scale = std::max(root_mean_square(values), 0.05);
  const std::vector<float> saved(values.begin(), values.end());
  double smallest = std::numeric_limits<double>::infinity();
  for (const double relative_step : {1e-2, 1e-3, 1e-4}) {
    const auto step = static_cast<float>(relative_step * scale);
    // Use the actual displacement after rounding to fp32.
    std::vector<float> above(saved), below(saved);
    double expected = 0;
    for (size_t i = 0; i < saved.size(); ++i) {
      above[i] += step * direction[i];
      below[i] -= step * direction[i];
      expected += (double{above[i]} - below[i]) * gradient[i];
    }
    std::ranges::copy(above, values.begin());
    const double high = objective();
    std::ranges::copy(below, values.begin());
    const double low = objective();
    smallest = std::min(smallest,
                        std::abs(high - low - expected) / (2 * double{step}));
  }
  std::ranges::copy(saved, values.begin());
  return smallest;
}

}  // namespace

double directional_error(std::span<float> values,
                         std::span<const float> gradient,
                         const Objective& objective,
                         int directions,
                         double floor) {
  const double norm = std::max(
      floor, root_mean_square(gradient) * std::sqrt(double(gradient.size())));
  std::vector<float> direction(values.size());
  double worst = 0;
  for (int number = 0; number < directions; ++number) {
    fill_normal(direction, 1000 + static_cast<uint64_t>(number));
    worst = std::max(
        worst,
        smallest_difference(values, gradient, direction, objective) / norm);
  }
  return norm > 0 ? worst : std::numeric_limits<double>::infinity();
}

double elementwise_error(std::span<float> values,
                         std::span<const float> gradient,
                         const Objective& objective,
                         int64_t limit) {
  const double norm = root_mean_square(gradient);
  const auto elems = static_cast<int64_t>(values.size());
  const int64_t stride = std::max<int64_t>(1, elems / limit);
  std::vector<float> direction(values.size(), 0.f);
  double worst = 0;
  for (int64_t i = 0; i < elems; i += stride) {
    direction[i] = 1;
    worst = std::max(
        worst,
        smallest_difference(values, gradient, direction, objective) / norm);
    direction[i] = 0;
  }
  return norm > 0 ? worst : std::numeric_limits<double>::infinity();
}

void expect_derivative(std::vector<double>& values,
                       const std::vector<double>& gradient,
                       const Objective& objective,
                       double step,
                       double tolerance) {
  ASSERT_EQ(values.size(), gradient.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const double at = values[i];
    values[i] = at + step;
    const double above = objective();
    values[i] = at - step;
    const double below = objective();
    values[i] = at;
    EXPECT_NEAR(gradient[i], (above - below) / (2 * step), tolerance) << i;
  }
}

void fill_normal(std::span<float> values, uint64_t seed) {
  Rng rng(seed, Purpose::kTest);
  for (float& value : values) value = static_cast<float>(rng.normal());
}

void keep_off_kinks(std::span<float> gamma, std::span<float> beta) {
  for (size_t channel = 0; channel < beta.size(); ++channel) {
    gamma[channel] = 0.6f + 0.1f * static_cast<float>(channel % 5);
    beta[channel] = channel % 3 == 1 ? -5.f : 5.f;
  }
}

}  // namespace syncopate
