// Every kind's matrix over many numbers of workers: where it exists, its
// weights, its spectral gap against published figures and closed forms.
// SPDX-License-Identifier: Apache-2.0
#include "topology/topology.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>
#include <set>

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace syncopate {
namespace {

using Matrix = std::vector<std::vector<double>>;

Matrix matrix_of(const Topology& topology) {
  const int n = topology.size();
  Matrix w(n, std::vector<double>(n, 0.0));
  for (int i = 0; i < n; ++i) {
    w[i][i] = topology.self_weight(i);
    for (const auto& [j, weight] : topology.neighbours(i)) w[i][j] = weight;
  }
  return w;
}

bool is_accepted(const TopologyOptions& options, int workers) {
  try {
    make_topology(options, workers);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::string refusal(const TopologyOptions& options, int workers) {
  const Error error = error_of([&] { make_topology(options, workers); });
  EXPECT_EQ(error.code(), ExitCode::kBadInput);
  return error.what();
}

std::set<int> accepted(const TopologyOptions& options, int up_to) {
  std::set<int> numbers;
  for (int n = 1; n <= up_to; ++n)
    if (is_accepted(options, n)) numbers.insert(n);
  return numbers;
}

std::vector<std::string> all_kinds() {
  std::vector<std::string> kinds;
  for (const auto& [keyword, description] : topology_table())
    kinds.push_back(keyword);
  return kinds;
}

std::vector<int> neighbour_ranks(const Topology& topology, int rank) {
  std::vector<int> ranks;
  for (const Neighbour& neighbour : topology.neighbours(rank))
    ranks.push_back(neighbour.rank);
  return ranks;
}

// 1 - the second largest |eigenvalue| of the circulant matrix whose first row
// is `row`, symmetric: eigenvalue k is sum_j row_j cos(2 pi j k / n).
double circulant_gap(const std::vector<double>& row) {
  const int n = static_cast<int>(row.size());
  double second = 0;
  for (int k = 1; k < n; ++k) {
    double eigenvalue = 0;
    for (int j = 0; j < n; ++j)
      eigenvalue += row[j] * std::cos(2 * std::numbers::pi * j * k / n);
    second = std::max(second, std::abs(eigenvalue));
  }
  return 1 - second;
}

class EveryKind : public testing::TestWithParam<std::string> {};

TEST_P(EveryKind, IsSymmetricDoublyStochasticAndConnected) {
  int count = 0;
  for (int n = 1; n <= 64; ++n) {
    if (!is_accepted({.kind = GetParam()}, n)) continue;
    ++count;
    const Topology topology = make_topology({.kind = GetParam()}, n);
    EXPECT_EQ(topology.kind(), GetParam());
    ASSERT_EQ(topology.size(), n);
    const Matrix w = matrix_of(topology);
    for (int i = 0; i < n; ++i) {
      double row = 0, column = 0;
      int entries = 0;
      for (int j = 0; j < n; ++j) {
        EXPECT_GE(w[i][j], 0);
        EXPECT_NEAR(w[i][j], w[j][i], 1e-15) << n;
        row += w[i][j];
        column += w[j][i];
        entries += j == i || w[i][j] > 0;
      }
      EXPECT_NEAR(row, 1, 1e-14) << n;
      EXPECT_NEAR(column, 1, 1e-14) << n;
      EXPECT_EQ(topology.scaling(i), entries) << n;
      const auto ranks = neighbour_ranks(topology, i);
      EXPECT_TRUE(std::ranges::is_sorted(ranks)) << n;
      EXPECT_EQ(std::ranges::count(ranks, i), 0) << n;
    }
    EXPECT_GT(topology.spectral_gap(), 1e-3) << n;
    EXPECT_LE(topology.spectral_gap(), 1 + 1e-12) << n;
  }
  EXPECT_GE(count, 1);
}

// A topology that refuses a number of workers suggests numbers that it accepts.
TEST_P(EveryKind, NamesNearNumbersThatSuit) {
  int refused = 0;
  for (int n = 1; n <= 64; ++n) {
    if (is_accepted({.kind = GetParam()}, n)) continue;
    const std::string text = refusal({.kind = GetParam()}, n);
    ++refused;
    const size_t start = text.rfind("; ");
    ASSERT_NE(start, std::string::npos) << text;
    std::string numbers = text.substr(start + 2);
    int below = 0, above = 0, last = 0;
    for (size_t used = 0; !numbers.empty(); numbers = numbers.substr(used)) {
      const int near = std::stoi(numbers, &used);
      EXPECT_TRUE(is_accepted({.kind = GetParam()}, near)) << text;
      EXPECT_GT(near, last) << text;
      last = near;
      (near < n ? below : above) = near;
      if (numbers.substr(used, 4) != " or ") {
        EXPECT_EQ(numbers.substr(used), " would do") << text;
        break;
      }
      used += 4;
    }
    for (int other = below + 1; other < (above > 0 ? above : 100); ++other)
      EXPECT_FALSE(is_accepted({.kind = GetParam()}, other)) << text;
  }
  const bool takes_all = accepted({.kind = GetParam()}, 64).size() == 64;
  EXPECT_EQ(refused == 0, takes_all);
}

INSTANTIATE_TEST_SUITE_P(Topology,
                         EveryKind,
                         testing::ValuesIn(all_kinds()),
                         [](const auto& info) { return info.param; });

TEST(Topology, HasAllKinds) {
  EXPECT_EQ(all_kinds(),
            (std::vector<std::string>{"complete", "ring", "torus", "expander",
                                      "margulis", "social", "exponential",
                                      "hierarchical"}));
}

TEST(Topology, ExistsForTheseNumbers) {
  for (const std::string kind : {"complete", "ring", "exponential"})
    EXPECT_EQ(accepted({.kind = kind}, 64).size(), 64u) << kind;
  EXPECT_EQ(accepted({.kind = "torus"}, 40),
            (std::set<int>{9, 12, 15, 16, 18, 20, 21, 24, 25, 27, 28, 30, 32,
                           33, 35, 36, 39, 40}));
  EXPECT_EQ(accepted({.kind = "expander"}, 64),
            (std::set<int>{3, 7, 13, 17, 23, 37, 43, 47, 53}));
  EXPECT_EQ(accepted({.kind = "margulis"}, 64),
            (std::set<int>{4, 9, 16, 25, 36, 49, 64}));
  EXPECT_EQ(accepted({.kind = "social"}, 64), (std::set<int>{32}));
  EXPECT_EQ(accepted({.kind = "hierarchical", .group = 4}, 16),
            (std::set<int>{4, 8, 12, 16}));
  EXPECT_EQ(
      accepted({.kind = "hierarchical", .group = 2, .between = "margulis"}, 32),
      (std::set<int>{8, 18, 32}));
}

struct Gap {
  const char* kind;
  int workers;
  double gap;
};

// CHOCO-SGD's constructions; four digits, not all rounded to nearest (a ring of
// 16 has 0.050747).
TEST(Topology, HasThePublishedGaps) {
  const Gap gaps[] = {
      {"complete", 8, 1.0},    {"ring", 4, .6667},      {"ring", 8, .1953},
      {"ring", 16, .0508},     {"ring", 32, .0128},     {"torus", 9, .6000},
      {"torus", 12, .4000},    {"torus", 16, .4000},    {"torus", 25, .2764},
      {"torus", 32, .1172},    {"torus", 36, .2000},    {"torus", 64, .1172},
      {"expander", 7, .2950},  {"expander", 13, .1723}, {"expander", 17, .1447},
      {"expander", 23, .1217}, {"expander", 37, .0959}, {"expander", 43, .0428},
      {"expander", 47, .0867}, {"expander", 53, .0672}, {"margulis", 16, .4607},
      {"margulis", 25, .3070}, {"margulis", 36, .3487}, {"margulis", 64, .3122},
      {"social", 32, .09033},
  };
  for (const auto& [kind, workers, gap] : gaps)
    EXPECT_NEAR(make_topology({.kind = kind}, workers).spectral_gap(), gap,
                0.6e-4)
        << kind << " " << workers;
}

TEST(Topology, CirculantGapsAreTheClosedForm) {
  for (const std::string kind : {"ring", "exponential", "complete"})
    for (int n = 1; n <= 64; ++n) {
      const Topology topology = make_topology({.kind = kind}, n);
      EXPECT_NEAR(topology.spectral_gap(),
                  circulant_gap(matrix_of(topology)[0]), 1e-13)
          << kind << " " << n;
    }
}

TEST(Topology, TorusGapIsTheClosedForm) {
  for (const auto& [height, width] :
       {std::pair{3, 3}, {3, 4}, {4, 5}, {3, 13}, {7, 9}}) {
    double second = 0;
    for (int a = 0; a < height; ++a)
      for (int b = 0; b < width; ++b)
        if (a + b > 0)
          second = std::max(
              second,
              std::abs(1 + 2 * std::cos(2 * std::numbers::pi * a / height) +
                       2 * std::cos(2 * std::numbers::pi * b / width)) /
                  5);
    EXPECT_NEAR(make_topology({.kind = "torus"}, height * width).spectral_gap(),
                1 - second, 1e-13)
        << height << " x " << width;
  }
}

TEST(Topology, RingOfFew) {
  EXPECT_EQ(matrix_of(make_topology({.kind = "ring"}, 1)), (Matrix{{1}}));
  EXPECT_EQ(matrix_of(make_topology({.kind = "ring"}, 2)),
            (Matrix{{.5, .5}, {.5, .5}}));
  EXPECT_EQ(matrix_of(make_topology({.kind = "ring"}, 3)),
            matrix_of(make_topology({.kind = "complete"}, 3)));
  const double third = 1.0 / 3;
  EXPECT_EQ(matrix_of(make_topology({.kind = "ring"}, 4)),
            (Matrix{{third, third, 0, third},
                    {third, third, third, 0},
                    {0, third, third, third},
                    {third, 0, third, third}}));
  EXPECT_EQ(make_topology({.kind = "ring"}, 1).spectral_gap(), 1);
}

TEST(Topology, TorusIsAGrid) {
  const Topology torus = make_topology({.kind = "torus"}, 12);  // 3 x 4
  EXPECT_EQ(neighbour_ranks(torus, 0), (std::vector<int>{1, 3, 4, 8}));
  EXPECT_EQ(neighbour_ranks(torus, 6), (std::vector<int>{2, 5, 7, 10}));
  EXPECT_EQ(torus.self_weight(6), 1.0 / 5);
}

// Modulo 7: 2 and 4 are inverse to each other, 3 and 5 too.
TEST(Topology, ExpanderHasChordsToInverses) {
  const Topology expander = make_topology({.kind = "expander"}, 7);
  EXPECT_EQ(neighbour_ranks(expander, 0), (std::vector<int>{1, 6}));
  EXPECT_EQ(neighbour_ranks(expander, 2), (std::vector<int>{1, 3, 4}));
  EXPECT_EQ(neighbour_ranks(expander, 5), (std::vector<int>{3, 4, 6}));
  for (const int rank : {0, 1, 6})
    EXPECT_EQ(expander.self_weight(rank), 1.0 / 3);
  EXPECT_EQ(expander.self_weight(2), 0);
}

TEST(Topology, SocialIsDavisGraph) {
  const Topology social = make_topology({.kind = "social"}, 32);
  int edges = 0, least = 99, most = 0;
  for (int rank = 0; rank < 32; ++rank) {
    edges += static_cast<int>(social.neighbours(rank).size());
    least = std::min(least, social.scaling(rank));
    most = std::max(most, social.scaling(rank));
    for (const int other : neighbour_ranks(social, rank))
      EXPECT_NE(rank < 18, other < 18);
    EXPECT_EQ(social.self_weight(rank) == 0, rank >= 22 && rank <= 26) << rank;
  }
  EXPECT_EQ(edges, 2 * 89);
  EXPECT_EQ(least, 3);
  EXPECT_EQ(most, 15);
  EXPECT_EQ(neighbour_ranks(social, 14),
            (std::vector<int>{24, 25, 27, 28, 29}));
}

TEST(Topology, ExponentialNeighboursAreAtPowersOfTwo) {
  const auto ranks = [](int workers, int rank) {
    return neighbour_ranks(make_topology({.kind = "exponential"}, workers),
                           rank);
  };
  EXPECT_EQ(ranks(2, 0), (std::vector<int>{1}));
  EXPECT_EQ(ranks(4, 0), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(ranks(7, 0), (std::vector<int>{1, 2, 5, 6}));
  EXPECT_EQ(ranks(8, 3), (std::vector<int>{1, 2, 4, 5, 7}));
  EXPECT_EQ(ranks(16, 0), (std::vector<int>{1, 2, 4, 8, 12, 14, 15}));
  EXPECT_EQ(make_topology({.kind = "exponential"}, 16).self_weight(5), 1.0 / 8);
}

TEST(Topology, ScalingCountsTheWorkerItself) {
  EXPECT_EQ(make_topology({.kind = "ring"}, 8).scaling(3), 3);
  EXPECT_EQ(make_topology({.kind = "torus"}, 9).scaling(0), 5);
  EXPECT_EQ(make_topology({.kind = "complete"}, 6).scaling(5), 6);
  EXPECT_EQ(make_topology({.kind = "complete"}, 1).scaling(0), 1);
  // A loop does not count as a further entry: worker 0 of 7 has three entries;
  // worker 2 has no loop.
  const Topology expander = make_topology({.kind = "expander"}, 7);
  EXPECT_EQ(expander.scaling(0), 3);
  EXPECT_EQ(expander.scaling(2), 4);
}

TEST(Topology, HierarchicalIsAMeanInsideAndBetweenOutside) {
  for (const auto& [between, groups] : {std::pair{"ring", 1},
                                        {"ring", 5},
                                        {"torus", 9},
                                        {"expander", 7},
                                        {"complete", 4},
                                        {"exponential", 6}}) {
    const Topology outer = make_topology({.kind = between}, groups);
    const Matrix b = matrix_of(outer);
    for (const int g : {1, 2, 3}) {
      const Topology topology = make_topology(
          {.kind = "hierarchical", .group = g, .between = between}, groups * g);
      EXPECT_EQ(topology.kind(), "hierarchical");
      const Matrix w = matrix_of(topology);
      for (int i = 0; i < groups * g; ++i)
        for (int j = 0; j < groups * g; ++j)
          EXPECT_DOUBLE_EQ(w[i][j], b[i / g][j / g] / g);
      EXPECT_NEAR(topology.spectral_gap(), outer.spectral_gap(), 1e-13)
          << between << " " << g;
    }
  }
}

TEST(Topology, RefusalsSayWhatWouldDo) {
  EXPECT_EQ(refusal({.kind = "torus"}, 10),
            "topology torus: not for 10 workers: it needs sides of at least 3 "
            "in its squarest grid; 9 or 12 would do");
  EXPECT_EQ(refusal({.kind = "expander"}, 8),
            "topology expander: not for 8 workers: it needs an odd prime with "
            "remainder 2 or 3 modulo 5; 7 or 13 would do");
  EXPECT_EQ(refusal({.kind = "margulis"}, 1),
            "topology margulis: not for 1 worker: it needs a square of at "
            "least 4; 4 would do");
  for (const int workers : {8, 1000})
    EXPECT_EQ(refusal({.kind = "social"}, workers),
              "topology social: not for " + std::to_string(workers) +
                  " workers: it needs exactly 32; 32 would do");
  EXPECT_EQ(
      refusal({.kind = "hierarchical", .group = 4, .between = "torus"}, 38),
      "topology hierarchical: not for 38 workers in groups of 4: it needs "
      "whole groups; 36 or 48 would do");
  EXPECT_EQ(
      refusal({.kind = "hierarchical", .group = 4, .between = "margulis"}, 8),
      "topology hierarchical: not for 8 workers in groups of 4: margulis "
      "between 2 of them needs a square of at least 4; 16 would do");
  EXPECT_EQ(refusal({.kind = "hierarchical", .group = 2000000000}, 8),
            "topology hierarchical: not for 8 workers in groups of "
            "2000000000: it needs whole groups; 2000000000 would do");
  EXPECT_EQ(
      refusal({.kind = "hierarchical", .between = "hierarchical"}, 8),
      "topology.between: hierarchical inside hierarchical is not available; "
      "any other topology is");
  EXPECT_EQ(refusal({.kind = "hierarchical", .group = 0}, 8),
            "topology.group: 0: not a number of workers of at least 1");
  EXPECT_EQ(refusal({.kind = "hierarchical", .between = "rings"}, 8),
            "topology.between: rings: not one of complete, ring, torus, "
            "expander, margulis, social, exponential (did you mean ring?)");
  EXPECT_EQ(refusal({.kind = "grid"}, 8),
            "topology.kind: grid: not one of complete, ring, torus, expander, "
            "margulis, social, exponential, hierarchical");
}

// The checks of rows and of the spectral gap are the last defence against a
// matrix that would drift.
TEST(Topology, RefusesOtherMatrices) {
  const auto gap_of = [](const std::vector<MixingRow>& rows) {
    return Topology("given", static_cast<int>(rows.size()),
                    [&rows](int rank) { return rows[rank]; })
        .spectral_gap();
  };
  EXPECT_NO_THROW(gap_of({{.5, {{1, .5}}}, {.5, {{0, .5}}}}));
  EXPECT_THROW(gap_of({{.5, {{1, .4}}}, {.5, {{0, .4}}}}), Error);
  EXPECT_THROW(gap_of({{.5, {{1, .5}}}, {1, {}}}), Error);
  EXPECT_THROW(gap_of({{.5, {{0, .5}}}}), Error);
  EXPECT_THROW(gap_of({{2, {{1, -1}}}, {2, {{0, -1}}}}), Error);
  EXPECT_THROW(gap_of({{.5, {{1, .5}}}}), Error);
  const double third = 1.0 / 3;
  EXPECT_THROW(gap_of({{third, {{2, third}, {1, third}}},
                       {third, {{0, third}, {2, third}}},
                       {third, {{0, third}, {1, third}}}}),
               Error);
}

// The rows of the whole matrix of 10,000 workers would take gigabytes.
TEST(Topology, RowsOfManyWorkersAreComputedWhenAskedFor) {
  EXPECT_EQ(make_topology({.kind = "ring"}, 10'000).scaling(9'999), 3);
  EXPECT_EQ(make_topology({.kind = "complete"}, 10'000).scaling(5), 10'000);
  EXPECT_EQ(make_topology({.kind = "exponential"}, 8192).scaling(17), 26);
}

TEST(Topology, GapOfManyWorkersIsQuick) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_NEAR(make_topology({.kind = "ring"}, 256).spectral_gap(),
              2.0 / 3 * (1 - std::cos(2 * std::numbers::pi / 256)), 1e-12);
  EXPECT_NEAR(make_topology({.kind = "complete"}, 256).spectral_gap(), 1,
              1e-12);
  // Two spectral gaps, for which one second each is required.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

TEST(Topology, IsListed) {
  const std::string text = list_topologies(7);
  EXPECT_NE(text.find("ring: 7 workers, spectral gap 0.2510\n"
                      "  worker  itself  neighbours:weights\n"
                      "       0  1/3     1:1/3  6:1/3\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("       2  0       1:1/3  3:1/3  4:1/3\n"),
            std::string::npos)
      << text;
  for (const std::string& kind : all_kinds())
    EXPECT_NE(
        ("\n" + text).find("\n" + kind + ": 7 workers") == std::string::npos,
        is_accepted({.kind = kind}, 7))
        << kind;
  EXPECT_NE(text.find("\ntopology torus: not for 7 workers"), std::string::npos)
      << text;
  EXPECT_EQ(list_topology({.kind = "hierarchical", .group = 2}, 4),
            "hierarchical (groups of 2, ring between): 4 workers, spectral gap "
            "1.0000\n"
            "  worker  itself  neighbours:weights\n"
            "       0  1/4     1:1/4  2:1/4  3:1/4\n"
            "       1  1/4     0:1/4  2:1/4  3:1/4\n"
            "       2  1/4     0:1/4  1:1/4  3:1/4\n"
            "       3  1/4     0:1/4  1:1/4  2:1/4\n");
}

}  // namespace
}  // namespace syncopate
