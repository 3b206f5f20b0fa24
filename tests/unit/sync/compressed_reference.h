// Averages of compressed gradients with error feedback, in double and straight
// from the formulas: what ef_sign_sgd and dgc are compared with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "unit/sync/captured_state.h"
#include "unit/sync/toy_run.h"

namespace syncopate::test {

struct CompressedReference {
  using Values = std::vector<std::vector<double>>;
  std::vector<double> x;
  Values residual, momentum;  // by worker

  // What a tensor (its place in the model) becomes for the others: q. Called
  // with the step.
  using Compress = std::function<
      void(int64_t step, std::span<const double> p, std::span<double> q)>;
  Compress compress;
  double clip = 0;          // of each worker's gradient, before weight decay
  double clip_tensors = 0;  // of each tensor, with weight decay
  bool masks_momentum = false;

  CompressedReference(int N, const ToyRun& run) : residual(N), momentum(N) {
    int64_t elems = 0;
    for (const int64_t tensor : run.tensors) elems += tensor;
    for (int64_t i = 0; i < elems; ++i) x.push_back(run.start(0, i));
    for (int rank = 0; rank < N; ++rank)
      residual[rank] = momentum[rank] = std::vector<double>(elems, 0.0);
  }

  void run(const ToyRun& run) {
    for (int64_t step = 0; step < run.steps; ++step) take_step(run, step);
  }

  void take_step(const ToyRun& run, int64_t step) {
    const auto N = std::ssize(residual);
    const std::vector<float> now(x.begin(), x.end());
    for (int64_t rank = 0; rank < N; ++rank) {
      std::vector<double>&e = residual[rank], &m = momentum[rank];
      std::vector<float> gradient(x.size());
      quadratic_gradient(static_cast<int>(rank), step, now, gradient);
      double norm = 0;
      for (const float g : gradient) norm += double{g} * g;
      const double factor =
          clip > 0 ? std::min(1.0, clip / (std::sqrt(norm) + 1e-6)) : 1;
      std::vector<double> p(x.size()), q(x.size(), 0.0);
      for (size_t i = 0; i < x.size(); ++i) {
        p[i] = factor * gradient[i] + run.optimizer.weight_decay * now[i];
      }
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

// sum over workers of (what they sent + what they keep) = sum of all that
// their optimizers gave, where that is the plain gradient: N (x_0 - x) / eta +
// sum e = sum g. Returns the largest error.
inline double feedback_error(int N, ToyRun run) {
  std::vector<double> given(48, 0.0), kept(48, 0.0);
  run.gradient = [&](int rank, int64_t step, std::span<const float> x,
                     std::span<float> gradient) {
    quadratic_gradient(rank, step, x, gradient);
    for (size_t i = 0; i < given.size(); ++i) given[i] += gradient[i];
  };
  run.at_boundary = [&](int, int64_t, Scheme& scheme, Replica&) {
    const auto residual = CapturedState(scheme)["residual"];
    for (size_t i = 0; i < kept.size(); ++i) kept[i] += residual[i];
  };
  const ToyResult result = train_toy(N, run);
  double worst = 0;
  for (size_t i = 0; i < given.size(); ++i) {
    const double moved =
        double{run.start(0, static_cast<int64_t>(i))} - result.parameters[0][i];
    worst = std::max(
        worst, std::abs(N * moved / run.optimizer.lr + kept[i] - given[i]));
  }
  return worst;
}

}  // namespace syncopate::test
