#include "reference/reference.h"

#include <cmath>
#include <limits>

namespace syncopate::reference {
namespace {

Values zeros(int64_t count) {
  return Values(static_cast<size_t>(count));
}

// Calls visit(image index, filter index, result index) for every product of a
// convolution whose image position is inside the image.
template <typename Visit>
void for_products(const Conv& c, const Visit& visit) {
  for (int64_t n = 0; n < c.N; ++n)
    for (int64_t k = 0; k < c.K; ++k)
      for (int64_t p = 0; p < c.P(); ++p)
        for (int64_t q = 0; q < c.Q(); ++q)
          for (int64_t i = 0; i < c.C; ++i)
            for (int64_t r = 0; r < c.R; ++r)
              for (int64_t s = 0; s < c.S; ++s) {
                const int64_t h = p * c.stride - c.pad + r;
                const int64_t w = q * c.stride - c.pad + s;
                if (h < 0 || h >= c.H || w < 0 || w >= c.W) continue;
                visit(((n * c.C + i) * c.H + h) * c.W + w,
                      ((k * c.C + i) * c.R + r) * c.S + s,
                      ((n * c.K + k) * c.P() + p) * c.Q() + q);
              }
}

}  // namespace

Values conv_forward(const Conv& conv, const Values& x, const Values& w) {
  Values y = zeros(conv.N * conv.K * conv.P() * conv.Q());
  for_products(conv, [&](int64_t image, int64_t filter, int64_t result) {
    y[result] += x[image] * w[filter];
  });
  return y;
}

Values conv_backward_data(const Conv& conv, const Values& dy, const Values& w) {
  Values dx = zeros(conv.N * conv.C * conv.H * conv.W);
  for_products(conv, [&](int64_t image, int64_t filter, int64_t result) {
    dx[image] += dy[result] * w[filter];
  });
  return dx;
}

Values conv_backward_weights(const Conv& conv,
                             const Values& x,
                             const Values& dy) {
  Values dw = zeros(conv.K * conv.C * conv.R * conv.S);
  for_products(conv, [&](int64_t image, int64_t filter, int64_t result) {
    dw[filter] += dy[result] * x[image];
  });
  return dw;
}

namespace {

// Calls visit(index) for every element of channel c.
template <typename Visit>
void for_channel(const BatchNorm& norm, int64_t c, const Visit& visit) {
  for (int64_t n = 0; n < norm.N; ++n)
    for (int64_t pixel = 0; pixel < norm.pixels; ++pixel)
      visit((n * norm.C + c) * norm.pixels + pixel);
}

}  // namespace

BatchNormResult batchnorm_forward(const BatchNorm& norm,
                                  const Values& x,
                                  const Values& gamma,
                                  const Values& beta,
                                  const Values& z) {
  BatchNormResult out{Values(x.size()), zeros(norm.C), zeros(norm.C),
                      zeros(norm.C)};
  const auto count = static_cast<double>(norm.N * norm.pixels);
  for (int64_t c = 0; c < norm.C; ++c) {
    double& mean = out.mean[c];
    double& variance = out.variance[c];
    for_channel(norm, c, [&](int64_t i) { mean += x[i] / count; });
    for_channel(norm, c, [&](int64_t i) {
      variance += (x[i] - mean) * (x[i] - mean) / count;
    });
    out.rstd[c] = 1 / std::sqrt(variance + norm.epsilon);
    for_channel(norm, c, [&](int64_t i) {
      double value = gamma[c] * (x[i] - mean) * out.rstd[c] + beta[c];
      if (!z.empty()) value += z[i];
      out.y[i] = norm.has_relu && value < 0 ? 0 : value;
    });
  }
  return out;
}

// With xhat = (x - mean) rstd and g the gradient behind the activation:
// dx = gamma rstd (g - mean(g) - xhat mean(g xhat))
BatchNormGradients batchnorm_backward(const BatchNorm& norm,
                                      const Values& dy,
                                      const Values& x,
                                      const Values& y,
                                      const Values& gamma,
                                      const Values& mean,
                                      const Values& rstd) {
  BatchNormGradients out{Values(x.size()), Values(x.size()), zeros(norm.C),
                         zeros(norm.C)};
  const auto count = static_cast<double>(norm.N * norm.pixels);
  for (int64_t c = 0; c < norm.C; ++c) {
    const auto xhat = [&](int64_t i) { return (x[i] - mean[c]) * rstd[c]; };
    for_channel(norm, c, [&](int64_t i) {
      out.dz[i] = norm.has_relu && !(y[i] > 0) ? 0 : dy[i];
      out.dbeta[c] += out.dz[i];
      out.dgamma[c] += out.dz[i] * xhat(i);
    });
    for_channel(norm, c, [&](int64_t i) {
      out.dx[i] =
          gamma[c] * rstd[c] *
          (out.dz[i] - out.dbeta[c] / count - xhat(i) * out.dgamma[c] / count);
    });
  }
  return out;
}

MaxPoolResult max_pool_forward(const Pool& pool, const Values& x) {
  const int64_t P = pool.P(), Q = pool.Q();
  MaxPoolResult out{zeros(pool.planes * P * Q), zeros(pool.planes * P * Q)};
  for (int64_t plane = 0; plane < pool.planes; ++plane)
    for (int64_t p = 0; p < P; ++p)
      for (int64_t q = 0; q < Q; ++q) {
        double best = -std::numeric_limits<double>::infinity();
        int64_t position = -1;
        for (int64_t r = 0; r < pool.window; ++r)
          for (int64_t s = 0; s < pool.window; ++s) {
            const int64_t h = p * pool.stride - pool.pad + r;
            const int64_t w = q * pool.stride - pool.pad + s;
            if (h < 0 || h >= pool.H || w < 0 || w >= pool.W) continue;
            const double value = x[(plane * pool.H + h) * pool.W + w];
            if (position >= 0 && value <= best) continue;
            best = value;
            position = r * pool.window + s;
          }
        out.y[(plane * P + p) * Q + q] = best;
        out.argmax[(plane * P + p) * Q + q] = static_cast<double>(position);
      }
  return out;
}

Values max_pool_backward(const Pool& pool,
                         const Values& dy,
                         const Values& argmax) {
  const int64_t P = pool.P(), Q = pool.Q();
  Values dx = zeros(pool.planes * pool.H * pool.W);
  for (int64_t i = 0; i < pool.planes * P * Q; ++i) {
    const auto position = static_cast<int64_t>(argmax[i]);
    const int64_t q = i % Q, p = i / Q % P, plane = i / (P * Q);
    const int64_t h = p * pool.stride - pool.pad + position / pool.window;
    const int64_t w = q * pool.stride - pool.pad + position % pool.window;
    dx[(plane * pool.H + h) * pool.W + w] += dy[i];
  }
  return dx;
}

Values linear_forward(int64_t N,
                      int64_t D,
                      int64_t K,
                      const Values& x,
                      const Values& w,
                      const Values& b) {
  Values y = zeros(N * K);
  for (int64_t n = 0; n < N; ++n)
    for (int64_t k = 0; k < K; ++k) {
      double sum = b.empty() ? 0 : b[k];
      for (int64_t d = 0; d < D; ++d) sum += x[n * D + d] * w[k * D + d];
      y[n * K + k] = sum;
    }
  return y;
}

}  // namespace syncopate::reference
