#include "support/tolerance.h"

#include <algorithm>
#include <cmath>

namespace syncopate::test {

bool is_within(double actual, double expected, const Tolerance& tolerance) {
  return std::fabs(actual - expected) <=
         tolerance.absolute + tolerance.relative * std::fabs(expected);
}

testing::AssertionResult all_near(const std::vector<double>& actual,
                                  const std::vector<double>& expected,
                                  const Tolerance& tolerance) {
  if (actual.size() != expected.size())
    return testing::AssertionFailure()
           << actual.size() << " values, " << expected.size() << " expected";
  size_t failures = 0, worst = 0;
  double worst_error = -1;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (is_within(actual[i], expected[i], tolerance)) continue;
    ++failures;
    const double error = std::fabs(actual[i] - expected[i]);
    if (failures == 1 || std::isnan(error) || error > worst_error) {
      worst = i;
      worst_error = error;
    }
    if (std::isnan(error)) break;
  }
  if (failures == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << failures << " of " << actual.size() << " beyond the tolerance; at "
         << worst << " " << actual[worst] << ", expected " << expected[worst]
         << ", allowed "
         << tolerance.absolute +
                tolerance.relative * std::fabs(expected[worst]);
}

double largest_magnitude(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values)
    largest = std::max(largest, std::fabs(value));
  return largest;
}

}  // namespace syncopate::test
