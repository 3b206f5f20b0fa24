#include "reference/activation.h"

#include <cmath>
#include <numbers>

namespace syncopate::reference {

double gelu(double x) {
  return x * std::erfc(-x / std::numbers::sqrt2) / 2;
}

double gelu_derivative(double x) {
  return std::erfc(-x / std::numbers::sqrt2) / 2 +
         x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
}

}  // namespace syncopate::reference
