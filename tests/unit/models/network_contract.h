// The contract of every network, checked for the one on a bench.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "gradient/network_bench.h"

namespace syncopate {

// Checks that backward reports descending offsets of tensors down to 0, and
// that from a reported offset on all gradients are final and no parameter is
// read again. Returns the number of reports.
inline int64_t expect_final_gradients_heard(NetworkBench& bench) {
  struct Heard {
    int64_t from;
    std::vector<float> gradients;  // [from, end) at the call
  };
  bench.step();
  const std::vector<float> undisturbed = bench.gradients_;
  std::vector<Heard> calls;
  bench.step([&](int64_t from) {
    calls.push_back(
        {from, {bench.gradients_.begin() + from, bench.gradients_.end()}});
    bench.spoil_parameters(from);
  });
  EXPECT_EQ(bench.gradients_, undisturbed);
  const ParameterTable& table = bench.model().parameters();
  int64_t before = table.num_elems();
  for (const auto& [from, gradients] : calls) {
    EXPECT_LT(from, before);
    before = from;
    EXPECT_EQ(table[table.find(from)].offset, from);
    EXPECT_TRUE(std::ranges::equal(gradients,
                                   std::span(bench.gradients_).subspan(from)))
        << from;
  }
  EXPECT_EQ(before, 0);
  return std::ssize(calls);
}

// Also after planning for larger batches in between.
inline void expect_the_same_bits_again(NetworkBench& bench) {
  const double loss = bench.step();
  const std::vector<float> gradients = bench.gradients_;
  EXPECT_TRUE(std::ranges::any_of(gradients, [](float g) { return g != 0; }));
  const int64_t bytes = bench.model().activation_bytes();
  for (int repeat = 0; repeat < 2; ++repeat) {
    EXPECT_EQ(bench.step(), loss);
    EXPECT_EQ(bench.gradients_, gradients);
    bench.model().plan(bench.context(), bench.batch().samples + 4, 1);
    EXPECT_GT(bench.model().activation_bytes(), bytes);
  }
}

// The Euclidean distance relative to the norm of the expected values.
inline double distance(std::span<const float> got,
                       std::span<const float> wanted) {
  EXPECT_EQ(got.size(), wanted.size());
  double squares = 0, norm = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    squares += std::pow(double{got[i]} - wanted[i], 2);
    norm += double{wanted[i]} * wanted[i];
  }
  return std::sqrt(squares / std::max(norm, 1e-12));
}

}  // namespace syncopate
