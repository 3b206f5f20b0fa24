#include "app/bench_ops.h"

#include <cmath>
#include <functional>
#include <vector>

#include "app/median.h"
#include "base/clock.h"
#include "ops/conv.h"
#include "ops/norm.h"
#include "ops/optim_update.h"
#include "ops/reduce.h"

namespace syncopate {
namespace {

double time_of(const std::function<void()>& body) {
  body();  // primitives are created
  std::vector<double> seconds;
  for (int i = 0; i < 11; ++i) {
    const double begin = monotonic_s();
    body();
    seconds.push_back(monotonic_s() - begin);
  }
  return median(seconds);
}

// Values of both signs and no two rows alike.
void fill(Tensor t) {
  float* values = t.f32();
  for (int64_t i = 0; i < t.elems(); ++i)
    values[i] = std::sin(static_cast<float>(i % 10007) * 0.37f);
}

struct Image {
  Image(Context& context, int64_t N, int64_t C, int64_t H)
      : memory(context.device(), 4 * N * C * H * H),
        tensor(make_tensor(memory.data(),
                           DType::kF32,
                           Shape{N, C, H, H},
                           preferred_layout(context.device(), C))) {
    fill(tensor);
  }
  Buffer memory;
  Tensor tensor;
};

void bench_conv(Log& log, Context& context, const ConvSize& size) {
  Image x(context, size.N, size.C, size.H);
  Image y(context, size.N, size.K, size.P());
  const Shape filters{size.K, size.C, size.R, size.S};
  Buffer w_memory(context.device(), 4 * filters.elems());
  const Tensor w = make_tensor(w_memory.data(), DType::kF32, filters);
  fill(w);
  const double flop =
      2.0 * static_cast<double>(size.N * size.K * size.P() * size.Q() * size.C *
                                size.R * size.S);
  const double forward =
      time_of([&] { conv_forward(context, y.tensor, x.tensor, w, size); });
  const double data = time_of(
      [&] { conv_backward_data(context, x.tensor, y.tensor, w, size); });
  const double weights = time_of(
      [&] { conv_backward_weights(context, w, x.tensor, y.tensor, size); });
  log.line(
      "conv {:>3} -> {:>3} {}x{}/{} at {:>3}: forward {:8.3f} ms {:6.1f} "
      "GFLOP/s, data {:8.3f} ms, weights {:8.3f} ms",
      size.C, size.K, size.R, size.S, size.stride, size.H, 1e3 * forward,
      flop / forward * 1e-9, 1e3 * data, 1e3 * weights);
}

void bench_norm(Log& log, Context& context, int64_t N, int64_t C, int64_t H) {
  Image x(context, N, C, H), y(context, N, C, H), z(context, N, C, H);
  std::vector<float> channel(8 * C, 0.5f);
  const auto part = [&](int index) {
    return make_tensor(channel.data() + index * C, DType::kF32, Shape{C});
  };
  const BatchNormParams params{.activation = Activation::kRelu};
  const auto bytes = static_cast<double>(x.tensor.bytes());
  const double forward = time_of([&] {
    batchnorm_forward(context, y.tensor, part(0), part(1), part(2), part(3),
                      x.tensor, part(4), part(5), z.tensor, params);
  });
  const double backward = time_of([&] {
    batchnorm_backward(context, z.tensor, Tensor{}, part(6), part(7), y.tensor,
                       x.tensor, y.tensor, part(4), part(0), part(1), params);
  });
  // Passes over a tensor: forward x, x, z, y; backward dy, x, y twice and dx.
  log.line(
      "batchnorm + add + relu {:>3} at {:>3}: forward {:8.3f} ms {:5.1f} "
      "GB/s, backward {:8.3f} ms {:5.1f} GB/s",
      C, H, 1e3 * forward, 4 * bytes / forward * 1e-9, 1e3 * backward,
      7 * bytes / backward * 1e-9);
}

}  // namespace

void bench_ops(Log& log, Context& context, int64_t batch) {
  log.line("batch {}, {} threads, fp32", batch, context.threads());
  const int64_t N = batch;
  bench_conv(log, context, {N, 3, 32, 32, 16, 3, 3, 1, 1});
  for (const int64_t width : {1, 4}) {  // ResNet-20's, and WRN-16-4's
    bench_conv(log, context, {N, 16 * width, 32, 32, 16 * width, 3, 3, 1, 1});
    bench_conv(log, context, {N, 16 * width, 32, 32, 32 * width, 3, 3, 2, 1});
    bench_conv(log, context, {N, 32 * width, 16, 16, 32 * width, 3, 3, 1, 1});
    bench_conv(log, context, {N, 64 * width, 8, 8, 64 * width, 3, 3, 1, 1});
  }
  bench_norm(log, context, N, 16, 32);
  bench_norm(log, context, N, 32, 16);
  bench_norm(log, context, N, 64, 8);

  constexpr int64_t kElems = 1 << 24;
  std::vector<float> x(kElems, 1), m(kElems, 0), g(kElems, 1e-3f);
  const double update = time_of([&] {
    sgd_update(context, x, m, g,
               {.rate = 0.1f, .momentum = 0.9f, .weight_decay = 1e-4f});
  });
  log.line("sgd with momentum, 16.8 M: {:8.3f} ms {:5.1f} GB/s", 1e3 * update,
           5 * 4.0 * kElems / update * 1e-9);
  const double sum =
      time_of([&] { static_cast<void>(sum_of_squares(context, g)); });
  log.line("sum of squares, 16.8 M: {:8.3f} ms {:5.1f} GB/s", 1e3 * sum,
           4.0 * kElems / sum * 1e-9);
}

}  // namespace syncopate
