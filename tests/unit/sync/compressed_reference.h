// Averages of compressed gradients with error feedback in double, directly from
// the formulas: the reference for ef_sign_sgd and dgc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "unit/sync/captured_state.h"
#include "unit/sync/reference.h"

namespace syncopate::test {

struct CompressedReference {
  Vector x;
  Matrix residual, momentum;  // by worker

  // Computes q, the value of a tensor (given by its index in the model) that
  // the others get at a step.
  using Compress = std::function<
      void(int64_t step, std::span<const double> p, std::span<double> q)>;
  Compress compress;
  double clip = 0;          // of each worker's gradient, before weight decay
  double clip_tensors = 0;  // of each tensor, with weight decay
  bool masks_momentum = false;

  CompressedReference(int N, const ToyRun& run)
      : x(start_of(run, 1)[0]),
        residual(N, Vector(x.size(), 0.0)),
        momentum(residual) {}

  void run(const ToyRun& run) {
    for (int64_t step = 0; step < run.steps; ++step) take_step(run, step);
  }

  void take_step(const ToyRun& run, int64_t step) {
    const auto N = std::ssize(residual);
    const Vector now = x;
    const Matrix gradients = gradients_at(run, step, Matrix(N, now));
    for (int64_t rank = 0; rank < N; ++rank) {
      Vector &e = residual[rank], &m = momentum[rank];
      double norm = 0;
      for (const double g : gradients[rank]) norm += g * g;
      const double factor =
          clip > 0 ? std::min(1.0, clip / (std::sqrt(norm) + 1e-6)) : 1;
      Vector p(x.size()), q(x.size(), 0.0);
      for (size_t i = 0; i < x.size(); ++i)
        p[i] =
            factor * gradients[rank][i] + run.optimizer.weight_decay * now[i];
      size_t begin = 0;
      for (const int64_t elems : run.tensors) {
        double squares = 0;
        for (int64_t i = 0; i < elems; ++i)
          squares += p[begin + i] * p[begin + i];
        if (clip_tensors > 0 && std::sqrt(squares) >= clip_tensors)
          for (int64_t i = 0; i < elems; ++i)
            p[begin + i] *= clip_tensors / std::sqrt(squares);
        begin += elems;
      }
      for (size_t i = 0; i < x.size(); ++i) {
        m[i] = run.optimizer.momentum * m[i] + p[i];
        p[i] = m[i] + e[i];
      }
      begin = 0;
      for (const int64_t elems : run.tensors) {
        compress(step, std::span(p).subspan(begin, elems),
                 std::span(q).subspan(begin, elems));
        begin += elems;
      }
      for (size_t i = 0; i < x.size(); ++i) {
        e[i] = p[i] - q[i];
        if (masks_momentum && q[i] != 0) m[i] = 0;
        x[i] -= run.optimizer.lr / static_cast<double>(N) * q[i];
      }
    }
  }
};

// Compares models, and each worker's state of these names.
inline void expect_follows(int N,
                           ToyRun run,
                           CompressedReference& expected,
                           bool has_momentum) {
  expected.run(run);
  Matrix residual(N), momentum(N);
  run.at_boundary = [&](int rank, int64_t, Scheme& scheme, Replica&) {
    const CapturedState state(scheme);
    residual[rank] = state["residual"];
    momentum[rank] = state["momentum"];
  };
  const ToyResult result = train_toy(N, run);
  expect_near(residual, expected.residual, 1e-5);
  if (has_momentum) expect_near(momentum, expected.momentum, 1e-5);
  expect_equal_replicas(result);
  expect_near(result.parameters, Matrix(N, expected.x), 1e-5);
}

// Checks sum over workers of (values sent + residuals) = sum of all optimizer
// outputs. For plain gradients this is N (x_0 - x) / eta + sum e = sum g.
// Returns the largest element of the residuals.
inline double expect_feedback(int N, ToyRun run) {
  const Vector start = start_of(run, 1)[0];
  Vector given(start.size(), 0.0), kept = given;
  double largest = 0;
  const auto at = run.gradient ? run.gradient : quadratic_gradient;
  run.gradient = [&](int rank, int64_t step, std::span<const float> x,
                     std::span<float> gradient) {
    at(rank, step, x, gradient);
    for (size_t i = 0; i < given.size(); ++i) given[i] += gradient[i];
  };
  run.at_boundary = [&](int, int64_t, Scheme& scheme, Replica&) {
    const Vector residual = CapturedState(scheme)["residual"];
    ASSERT_EQ(residual.size(), kept.size());
    for (size_t i = 0; i < kept.size(); ++i) {
      kept[i] += residual[i];
      largest = std::max(largest, std::abs(residual[i]));
    }
  };
  const ToyResult result = train_toy(N, run);
  for (size_t i = 0; i < given.size(); ++i) {
    const double moved = start[i] - result.parameters[0][i];
    EXPECT_NEAR(N * moved / run.optimizer.lr + kept[i], given[i], 2e-4);
  }
  return largest;
}

}  // namespace syncopate::test
