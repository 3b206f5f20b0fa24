#include "topology/topology.h"

#include <algorithm>
#include <cmath>
#include <Eigen/Eigenvalues>

#include "base/check.h"

namespace syncopate {
namespace {

// for row sums and for symmetry
constexpr double kTolerance = 1e-12;

// Returns W(row of `neighbours`, rank), which is 0 without an edge.
double weight_of(const std::vector<Neighbour>& neighbours, int rank) {
  const auto found =
      std::ranges::lower_bound(neighbours, rank, {}, &Neighbour::rank);
  return found != neighbours.end() && found->rank == rank ? found->weight : 0;
}

}  // namespace

Topology::Topology(std::string kind,
                   std::vector<double> self,
                   std::vector<std::vector<Neighbour>> neighbours)
    : kind_(std::move(kind)),
      self_(std::move(self)),
      neighbours_(std::move(neighbours)) {
  CHECK(!self_.empty() && self_.size() == neighbours_.size());
  for (int i = 0; i < size(); ++i) {
    double sum = self_[i];
    int last = -1;
    CHECK_MSG(self_[i] >= 0, "{}: W({}, {}) = {}", kind_, i, i, self_[i]);
    for (const auto& [j, weight] : neighbours_[i]) {
      CHECK_MSG(j > last && j < size() && j != i, "{}: row {} has {} after {}",
                kind_, i, j, last);
      CHECK_MSG(weight > 0, "{}: W({}, {}) = {}", kind_, i, j, weight);
      const double mirrored = weight_of(neighbours_[j], i);
      CHECK_MSG(std::abs(weight - mirrored) <= kTolerance,
                "{}: W({}, {}) = {}, W({}, {}) = {}", kind_, i, j, weight, j, i,
                mirrored);
      sum += weight;
      last = j;
    }
    CHECK_MSG(std::abs(sum - 1) <= kTolerance, "{}: row {} sums to {}", kind_,
              i, sum);
  }
}

// W - J/N has the eigenvalues of W with 0 in place of the 1 that belongs to the
// consensus vector.
double Topology::spectral_gap() const {
  const int n = size();
  Eigen::MatrixXd rest = Eigen::MatrixXd::Constant(n, n, -1.0 / n);
  for (int i = 0; i < n; ++i) {
    rest(i, i) += self_[i];
    for (const auto& [j, weight] : neighbours_[i]) rest(j, i) += weight;
  }
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(
      rest, Eigen::EigenvaluesOnly);
  CHECK(solver.info() == Eigen::Success);
  return 1 - solver.eigenvalues().cwiseAbs().maxCoeff();
}

}  // namespace syncopate
