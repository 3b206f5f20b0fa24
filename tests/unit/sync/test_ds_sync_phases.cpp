// The groups of DS-Sync and their rate of mixing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sync/ds_sync.h"
#include "unit/sync/reference.h"

namespace syncopate {
namespace {

using test::Matrix;

Matrix identity(int N) {
  Matrix w(N, std::vector<double>(N, 0.0));
  for (int i = 0; i < N; ++i) w[i][i] = 1;
  return w;
}

// Applies the averages of all phases to w, one after the other.
Matrix after_cycle(Matrix w, const std::vector<Partition>& phases) {
  for (const Partition& groups : phases) test::average_groups(groups, w);
  return w;
}

// |W - J/N|_2 of a cycle, the factor by which it reduces the distance to
// consensus; computed from W^T W by power iteration.
double mixing_rate(const std::vector<Partition>& phases, int N) {
  const Matrix w = after_cycle(identity(N), phases);
  std::vector<double> x(N);
  for (int i = 0; i < N; ++i) x[i] = std::sin(1.0 + i * i);
  double rate = 0;
  for (int round = 0; round < 2000; ++round) {
    double mean = 0, norm = 0;
    for (const double value : x) mean += value / N;
    for (double& value : x) value -= mean;
    for (const double value : x) norm += value * value;
    std::vector<double> along(N, 0.0), back(N, 0.0);
    for (int i = 0; i < N; ++i)
      for (int j = 0; j < N; ++j) along[i] += w[i][j] * x[j] / std::sqrt(norm);
    double square = 0;
    for (int i = 0; i < N; ++i) square += along[i] * along[i];
    rate = std::sqrt(square);
    for (int i = 0; i < N; ++i)
      for (int j = 0; j < N; ++j) back[j] += w[i][j] * along[i];
    if (rate < 1e-12) return rate;
    x = back;
  }
  return rate;
}

void expect_partition(const Partition& groups, int N) {
  std::vector<int> times(N, 0);
  for (const std::vector<int>& group : groups) {
    EXPECT_EQ(group.size(), groups[0].size());
    for (const int rank : group) {
      EXPECT_TRUE(rank >= 0 && rank < N);
      if (rank >= 0 && rank < N) ++times[rank];
    }
  }
  EXPECT_EQ(times, std::vector<int>(N, 1));
}

TEST(DsSyncPhases, PartitionTheRanks) {
  for (int N = 1; N <= 36; ++N) {
    for (const Partition& groups : ds_sync_phases({}, N))
      expect_partition(groups, N);
    for (int g = 2; g <= N; ++g) {
      if (N % g != 0) continue;
      for (const Partition& groups :
           ds_sync_phases({.radices = {}, .group = g}, N)) {
        expect_partition(groups, N);
        EXPECT_EQ(std::ssize(groups[0]), g);
      }
    }
  }
  for (const Partition& groups : ds_sync_phases({.radices = {2, 3, 4}}, 24))
    expect_partition(groups, 24);
}

TEST(DsSyncPhases, OfFourAreThePublishedOnes) {
  const std::vector<Partition> published = {{{0, 1}, {2, 3}}, {{0, 3}, {1, 2}}};
  EXPECT_EQ(ds_sync_phases({}, 4), published);
  EXPECT_EQ(ds_sync_phases({.radices = {}, .group = 2}, 4), published);
}

TEST(DsSyncPhases, OfAGridMeetEachOtherOnce) {
  for (const int k : {2, 3, 4, 5, 6}) {
    const std::vector<Partition> phases = ds_sync_phases({}, k * k);
    ASSERT_EQ(phases.size(), 2u);
    for (const std::vector<int>& group : phases[1]) {
      std::vector<int> rows;
      for (const int rank : group) rows.push_back(rank / k);
      std::sort(rows.begin(), rows.end());
      for (int i = 0; i < k; ++i) EXPECT_EQ(rows[i], i);
    }
  }
}

TEST(DsSyncPhases, AlongDigits) {
  const std::vector<Partition> expected = {{{0, 1}, {2, 3}, {4, 5}},
                                           {{0, 2, 4}, {1, 3, 5}}};
  EXPECT_EQ(ds_sync_phases({}, 6), expected);
  EXPECT_EQ(ds_sync_phases({.radices = {2, 3}}, 6), expected);
  EXPECT_EQ(ds_sync_phases({}, 8).size(), 3u);
  EXPECT_EQ(ds_sync_phases({}, 7).size(), 1u);  // one group of all
}

// W_0 ... W_{m-1} = J / N
TEST(DsSyncPhases, ReachConsensusInOneCycle) {
  const auto expect_mean = [](const DsSyncOptions& options, int N) {
    const Matrix w = after_cycle(identity(N), ds_sync_phases(options, N));
    for (const auto& row : w)
      for (const double value : row) EXPECT_NEAR(value, 1.0 / N, 1e-15);
  };
  for (int N = 1; N <= 36; ++N) expect_mean({}, N);
  expect_mean({.radices = {4, 2}}, 8);
  expect_mean({.radices = {2, 4}}, 8);
  expect_mean({.radices = {6}}, 6);
}

// Shifted groups overlap, so every worker's values reach all others. For pairs
// the rate is known: cos(2 pi / N) per cycle.
TEST(DsSyncPhases, OfShiftedGroupsMix) {
  for (const int N : {6, 8, 10, 12, 16, 24}) {
    EXPECT_NEAR(mixing_rate(ds_sync_phases({.radices = {}, .group = 2}, N), N),
                std::cos(2 * std::numbers::pi / N), 1e-6);
    for (int g = 3; g < N; ++g) {
      if (N % g != 0) continue;
      const std::vector<Partition> phases =
          ds_sync_phases({.radices = {}, .group = g}, N);
      EXPECT_LT(mixing_rate(phases, N), 0.95) << N << " " << g;
      Matrix w = identity(N);
      for (int cycle = 0; cycle < N; ++cycle) w = after_cycle(w, phases);
      for (const auto& row : w)
        for (const double value : row) EXPECT_GT(value, 0);
    }
  }
}

TEST(DsSyncPhases, StartAgainWithTheEpoch) {
  const auto phases_of = [](const DsSyncOptions& options, double per_epoch) {
    std::vector<int64_t> phases;
    for (int64_t step = 0; step < 11; ++step)
      phases.push_back(ds_sync_phase(options, step, per_epoch, 2));
    return phases;
  };
  using Phases = std::vector<int64_t>;
  EXPECT_EQ(phases_of({.radices = {}, .restart = PhaseRestart::kEpoch}, 5),
            (Phases{0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 0}));
  EXPECT_EQ(phases_of({.radices = {}, .restart = PhaseRestart::kNever}, 5),
            (Phases{0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0}));
  // Epochs begin at 0, 2.5, 5, 7.5, 10.
  EXPECT_EQ(phases_of({.radices = {}, .restart = PhaseRestart::kEpoch}, 2.5),
            (Phases{0, 1, 0, 0, 1, 0, 1, 0, 0, 1, 0}));
}

}  // namespace
}  // namespace syncopate
