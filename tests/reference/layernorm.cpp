#include "reference/layernorm.h"

#include <cmath>

namespace syncopate::reference {

LayernormResult layernorm_forward(int64_t rows,
                                  int64_t H,
                                  const Values& z,
                                  const Values& gamma,
                                  const Values& beta,
                                  double eps) {
  const auto columns = static_cast<size_t>(H);
  LayernormResult result{Values(z.size()), {}, {}};
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
    const double* of_row = z.data() + row * columns;
    double mean = 0, variance = 0;
    for (size_t h = 0; h < columns; ++h)
      mean += of_row[h] / static_cast<double>(H);
    for (size_t h = 0; h < columns; ++h)
      variance +=
          (of_row[h] - mean) * (of_row[h] - mean) / static_cast<double>(H);
    const double rstd = 1 / std::sqrt(variance + eps);
    for (size_t h = 0; h < columns; ++h)
      result.y[row * columns + h] =
          gamma[h] * (of_row[h] - mean) * rstd + beta[h];
    result.mean.push_back(mean);
    result.rstd.push_back(rstd);
  }
  return result;
}

// Uses the derivative of each element of the row by each other:
//   d n_i / d z_j = rstd ([i == j] - (1 + n_i n_j) / H)
// where n = (z - mean) rstd, which is y for gamma = 1 and beta = 0.
LayernormGradients layernorm_backward(int64_t rows,
                                      int64_t H,
                                      const Values& dy,
                                      const Values& z,
                                      const Values& gamma,
                                      double eps) {
  const auto columns = static_cast<size_t>(H);
  const LayernormResult normal = layernorm_forward(
      rows, H, z, Values(columns, 1.0), Values(columns, 0.0), eps);
  LayernormGradients gradients{Values(z.size()), Values(columns),
                               Values(columns)};
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
    const double* n = normal.y.data() + row * columns;
    const double* upstream = dy.data() + row * columns;
    for (size_t i = 0; i < columns; ++i) {
      gradients.dgamma[i] += upstream[i] * n[i];
      gradients.dbeta[i] += upstream[i];
      for (size_t j = 0; j < columns; ++j)
        gradients.dz[row * columns + j] +=
            upstream[i] * gamma[i] * normal.rstd[row] *
            ((i == j ? 1.0 : 0.0) - (1 + n[i] * n[j]) / static_cast<double>(H));
    }
  }
  return gradients;
}

}  // namespace syncopate::reference
