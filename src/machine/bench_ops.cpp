#include "machine/bench.h"

#include <cmath>
#include <functional>
#include <vector>

#include "base/clock.h"
#include "base/median.h"
#include "compress/compressor.h"
#include "device/device_vector.h"
#include "ops/combine.h"
#include "ops/conv.h"
#include "ops/elementwise.h"
#include "ops/norm.h"
#include "ops/optim_update.h"
#include "ops/reduce.h"

namespace syncopate {
namespace {

// Returns the seconds of one call: the median over groups of calls, each long
// enough to make the time of waiting for the device negligible.
double time_of(const Context& context, const std::function<void()>& body) {
  const int together = context.device().kind() == DeviceKind::kCpu ? 1 : 20;
  body();  // primitives are created
  std::vector<double> seconds;
  for (int i = 0; i < 11; ++i) {
    context.stream().synchronize();
    const double begin = monotonic_s();
    for (int call = 0; call < together; ++call) body();
    context.stream().synchronize();
    seconds.push_back((monotonic_s() - begin) / together);
  }
  return median(seconds);
}

// Values of both signs, in device memory.
struct Values {
  Values(Context& context,
         const Shape& shape,
         DType dtype = DType::kF32,
         Layout layout = Layout::kRowMajor)
      : single(context.device(), context.stream(), shape.elems()),
        memory(context.device(), shape.elems() * bytes_of(dtype)),
        tensor(make_tensor(memory.data(), dtype, shape, layout)) {
    std::vector<float> host(static_cast<size_t>(shape.elems()));
    for (size_t i = 0; i < host.size(); ++i)
      host[i] = std::sin(static_cast<float>(i % 10007) * 0.37f);
    single.assign(host);
    reorder(context, tensor,
            make_const_tensor(single.data(), DType::kF32, shape, layout));
  }
  DeviceVector<float> single;
  Buffer memory;
  Tensor tensor;
};

struct Image : Values {
  Image(Context& context, int64_t N, int64_t C, int64_t H, DType dtype)
      : Values(context,
               Shape{N, C, H, H},
               dtype,
               preferred_layout(context.device(), dtype, C)) {}
};

void bench_conv(Log& log, Context& context, const ConvSize& size, DType dtype) {
  Image x(context, size.N, size.C, size.H, dtype);
  Image y(context, size.N, size.K, size.P(), dtype);
  const Values w(context, Shape{size.K, size.C, size.R, size.S});
  const double flop =
      2.0 * static_cast<double>(size.N * size.K * size.P() * size.Q() * size.C *
                                size.R * size.S);
  const double forward = time_of(context, [&] {
    conv_forward(context, y.tensor, x.tensor, w.tensor, size);
  });
  const double data = time_of(context, [&] {
    conv_backward_data(context, x.tensor, y.tensor, w.tensor, size);
  });
  const double weights = time_of(context, [&] {
    conv_backward_weights(context, w.tensor, x.tensor, y.tensor, size);
  });
  log.line(
      "conv {:>3} -> {:>3} {}x{}/{} at {:>3}: forward {:8.3f} ms {:6.1f} "
      "GFLOP/s, data {:8.3f} ms, weights {:8.3f} ms",
      size.C, size.K, size.R, size.S, size.stride, size.H, 1e3 * forward,
      flop / forward * 1e-9, 1e3 * data, 1e3 * weights);
}

void bench_norm(Log& log,
                Context& context,
                int64_t N,
                int64_t C,
                int64_t H,
                DType dtype) {
  const Image x(context, N, C, H, dtype), y(context, N, C, H, dtype),
      z(context, N, C, H, dtype);
  const Values channels(context, Shape{8, C});
  const auto part = [&](int index) {
    return make_tensor(channels.tensor.f32() + index * C, DType::kF32,
                       Shape{C});
  };
  const BatchNormParams params{.activation = Activation::kRelu};
  const auto bytes = static_cast<double>(x.tensor.bytes());
  const double forward = time_of(context, [&] {
    batchnorm_forward(context, {.y = y.tensor,
                                .mean = part(0),
                                .rstd = part(1),
                                .running_mean = part(2),
                                .running_var = part(3),
                                .x = x.tensor,
                                .gamma = part(4),
                                .beta = part(5),
                                .z = z.tensor,
                                .params = params});
  });
  const double backward = time_of(context, [&] {
    batchnorm_backward(context, {.dx = z.tensor,
                                 .dgamma = part(6),
                                 .dbeta = part(7),
                                 .dy = y.tensor,
                                 .x = x.tensor,
                                 .gamma = part(4),
                                 .beta = part(5),
                                 .mean = part(0),
                                 .rstd = part(1),
                                 .params = params});
  });
  // Passes over a tensor: forward x, x, z, y; backward dy, x twice and dx.
  log.line(
      "batchnorm + add + relu {:>3} at {:>3}: forward {:8.3f} ms {:5.1f} "
      "GB/s, backward {:8.3f} ms {:5.1f} GB/s",
      C, H, 1e3 * forward, 4 * bytes / forward * 1e-9, 1e3 * backward,
      5 * bytes / backward * 1e-9);
}

// A range of ResNet-50's size with about as many tensors.
ParameterTable compressed_range() {
  constexpr int64_t kTensors = 100, kElemsEach = 250000;
  ParameterTable table;
  for (int64_t i = 0; i < kTensors; ++i)
    table.add(fmt::format("tensor{}", i), Shape{kElemsEach}, Role::kWeight);
  return table;
}

// Reports the rate of the bytes that must be read and written, relative to the
// bandwidth of a copy with the same threads. Encoding reads the range
// (random_k: the kept values) and writes the message; blending reads the
// message, and reads and writes the values of the range that it contains.
void bench_compressors(Log& log, Context& context) {
  const ParameterTable table = compressed_range();
  const int64_t D = table.num_elems();
  const Values x(context, Shape{D}), y(context, Shape{D});
  const double range_bytes = 4.0 * static_cast<double>(D);
  const double copy = time_of(context, [&] {
    combine(context, y.single, {{1, x.single}});
  });
  const double bandwidth = 2 * range_bytes / copy;
  log.line("copy of {:.1f} M values: {:8.3f} ms {:5.1f} GB/s", 1e-6 * D,
           1e3 * copy, bandwidth * 1e-9);
  const std::pair<const char*, CompressOptions> forms[] = {
      {"identity", {.kind = "identity"}},
      {"sign", {.kind = "sign"}},
      {"top_k 0.9", {.kind = "top_k", .ratio = 0.9}},
      {"top_k 0.99", {.kind = "top_k", .ratio = 0.99}},
      {"random_k 0.9", {.kind = "random_k", .ratio = 0.9}},
      {"random_k 0.99", {.kind = "random_k", .ratio = 0.99}},
      {"qsgd 4 bits", {.kind = "qsgd", .bits = 4}},
      {"qsgd 8 bits", {.kind = "qsgd", .bits = 8}},
  };
  for (const auto& [name, form] : forms) {
    const auto compressor = make_compressor(context, form, table);
    const DeviceVector<uint32_t> message(context.device(), context.stream(),
                                         compressor->message_words());
    Draw draw{.seed = 1, .worker = 0, .step = 0};
    const double encode = time_of(context, [&] {
      ++draw.step;
      compressor->encode(context, message, x.single, draw);
    });
    const double blend = time_of(context, [&] {
      compressor->blend(context, y.single, message, 1, 1e-3f);
    });
    const auto bytes = static_cast<double>(4 * message.size());
    const double held = compressor->is_sparse() ? bytes / 2 : range_bytes;
    const double read = form.kind == "random_k" ? held : range_bytes;
    const auto figures = [&](double moved, double seconds) {
      return fmt::format("{:8.3f} ms {:5.1f} GB/s {:3.0f}%", 1e3 * seconds,
                         moved / seconds * 1e-9,
                         100 * moved / seconds / bandwidth);
    };
    log.line("{:<13} {:5.1f}x smaller: encode {}, blend {}", name,
             range_bytes / bytes, figures(read + bytes, encode),
             figures(bytes + 2 * held, blend));
  }
}

}  // namespace

void bench_ops(Log& log, Context& context, int64_t batch, DType dtype) {
  log.line("{}: batch {}, {} threads, {}", context.device().name(), batch,
           context.threads(), name_of(dtype));
  const int64_t N = batch;
  bench_conv(log, context, {N, 3, 32, 32, 16, 3, 3, 1, 1}, dtype);
  for (const int64_t width : {1, 4}) {  // ResNet-20's, and WRN-16-4's
    const int64_t C = 16 * width;
    bench_conv(log, context, {N, C, 32, 32, C, 3, 3, 1, 1}, dtype);
    bench_conv(log, context, {N, C, 32, 32, 2 * C, 3, 3, 2, 1}, dtype);
    bench_conv(log, context, {N, 2 * C, 16, 16, 2 * C, 3, 3, 1, 1}, dtype);
    bench_conv(log, context, {N, 4 * C, 8, 8, 4 * C, 3, 3, 1, 1}, dtype);
  }
  bench_norm(log, context, N, 16, 32, dtype);
  bench_norm(log, context, N, 32, 16, dtype);
  bench_norm(log, context, N, 64, 8, dtype);

  constexpr int64_t kElems = 1 << 24;
  const Values x(context, Shape{kElems}), m(context, Shape{kElems}),
      g(context, Shape{kElems});
  const double update = time_of(context, [&] {
    sgd_update(context, x.single, m.single, g.single,
               {.rate = 1e-6f, .momentum = 0.9f, .weight_decay = 1e-4f});
  });
  log.line("sgd with momentum, 16.8 M: {:8.3f} ms {:5.1f} GB/s", 1e3 * update,
           5 * 4.0 * kElems / update * 1e-9);
  DeviceVector<float> factor(context.device(), context.stream(), 1);
  const double sum = time_of(
      context, [&] { clip_factor(context, factor.data(), g.single, 1, 1); });
  log.line("norm for clipping, 16.8 M: {:8.3f} ms {:5.1f} GB/s", 1e3 * sum,
           4.0 * kElems / sum * 1e-9);
  bench_compressors(log, context);
}

}  // namespace syncopate
