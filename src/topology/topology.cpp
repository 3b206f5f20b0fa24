#include "topology/topology.h"

#include <Eigen/Eigenvalues>

#include "base/check.h"

namespace syncopate {
// W - J/N has the eigenvalues of W with 0 in place of the 1 that belongs to the
// consensus vector.
double Topology::spectral_gap() const {
  const int n = size();
  Eigen::MatrixXd rest = Eigen::MatrixXd::Constant(n, n, -1.0 / n);
  for (int i = 0; i < n; ++i) {
    const MixingRow own = row(i);
    rest(i, i) += own.self;
    for (const auto& [j, weight] : own.neighbours) rest(j, i) += weight;
  }
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(
      rest, Eigen::EigenvaluesOnly);
  CHECK(solver.info() == Eigen::Success);
  return 1 - solver.eigenvalues().cwiseAbs().maxCoeff();
}

}  // namespace syncopate
