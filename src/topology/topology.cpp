#include "topology/topology.h"

#include <algorithm>
#include <cmath>

#include <Eigen/Eigenvalues>

#include "base/check.h"

namespace syncopate {
namespace {

// for row sums and for symmetry
constexpr double kTolerance = 1e-12;

}  // namespace

MixingRow Topology::row(int rank) const {
  MixingRow row = row_of_(rank);
  double sum = row.self;
  int last = -1;
  CHECK_MSG(row.self >= 0, "{}: W({}, {}) = {}", kind_, rank, rank, row.self);
  for (const auto& [j, weight] : row.neighbours) {
    CHECK_MSG(j > last && j < size_ && j != rank, "{}: row {} has {} after {}",
              kind_, rank, j, last);
    CHECK_MSG(weight > 0, "{}: W({}, {}) = {}", kind_, rank, j, weight);
    sum += weight;
    last = j;
  }
  CHECK_MSG(std::abs(sum - 1) <= kTolerance, "{}: row {} sums to {}", kind_,
            rank, sum);
  if (row.receivers.empty()) {
    for (const Neighbour& neighbour : row.neighbours)
      row.receivers.push_back(neighbour.rank);
    std::ranges::rotate(row.receivers,
                        std::ranges::upper_bound(row.receivers, rank));
  }
  CHECK(row.receivers.size() == row.neighbours.size());
  return row;
}

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
  const double asymmetry = (rest - rest.transpose()).cwiseAbs().maxCoeff();
  CHECK_MSG(asymmetry <= kTolerance, "{}: differs by {} from its transpose",
            kind_, asymmetry);
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(
      rest, Eigen::EigenvaluesOnly);
  CHECK(solver.info() == Eigen::Success);
  return 1 - solver.eigenvalues().cwiseAbs().maxCoeff();
}

}  // namespace syncopate
