#include "reference/optim_adam.h"

#include <cmath>

namespace syncopate::reference {

Values Adam::direction(const Values& x, const Values& gradient) {
  const size_t n = x.size();
  if (m.empty()) m = v = Values(n, 0.0);
  ++steps;
  Values d(n, 0.0);
  for (size_t i = 0; i < n; ++i) {
    if (lazy_row != 0) {
      const size_t row = i / static_cast<size_t>(lazy_row);
      bool is_touched = false;
      for (size_t j = row * lazy_row; j < (row + 1) * lazy_row; ++j)
        if (gradient[j] != 0) is_touched = true;
      if (!is_touched) continue;
    }
    double g = grad_scale * gradient[i];
    if (!is_decoupled) g += weight_decay * x[i];
    m[i] = beta1 * m[i] + (1 - beta1) * g;
    v[i] = beta2 * v[i] + (1 - beta2) * g * g;
    const double m_hat = m[i] / (1 - std::pow(beta1, steps));
    const double v_hat = v[i] / (1 - std::pow(beta2, steps));
    d[i] = m_hat / (std::sqrt(v_hat) + eps);
    if (is_decoupled) d[i] += weight_decay * x[i];
  }
  return d;
}

void Adam::step(Values* x, const Values& gradient) {
  const Values d = direction(*x, gradient);
  for (size_t i = 0; i < d.size(); ++i) (*x)[i] -= rate * d[i];
}

}  // namespace syncopate::reference
