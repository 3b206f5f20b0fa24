#include "topology/eigenvalues.h"

#include <Eigen/Eigenvalues>

#include "base/check.h"

namespace syncopate {

double spectral_radius(const std::vector<double>& matrix, int n) {
  CHECK(matrix.size() == static_cast<size_t>(n) * n);
  const Eigen::Map<const Eigen::MatrixXd> symmetric(matrix.data(), n, n);
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(
      symmetric, Eigen::EigenvaluesOnly);
  CHECK(solver.info() == Eigen::Success);
  return solver.eigenvalues().cwiseAbs().maxCoeff();
}

}  // namespace syncopate
