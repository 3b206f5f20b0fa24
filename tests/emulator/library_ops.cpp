// Convolutions and matrix products of the emulated GPU, in the place of
// kernels/library/: fp32 ones of the CPU on copies of the operands, in the
// order of the stream. Products of bf16 are exact in fp32, where a GPU adds
// them too.
#include <omp.h>
#include <dnnl.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "cuda/platform.h"
#include "emulator/emulator.h"
#include "library/convolve.h"
#include "library/gemm.h"
#include "ops/bodies.h"
#include "ops/plans.h"

namespace syncopate::cuda {
namespace {

std::atomic<bool> is_refusing_products = false;

std::vector<float> floats_of(const void* memory, int64_t elems, DType dtype) {
  std::vector<float> values(static_cast<size_t>(elems));
  for (int64_t i = 0; i < elems; ++i)
    values[i] = dtype == DType::kF32
                    ? static_cast<const float*>(memory)[i]
                    : to_f32(static_cast<const Bf16*>(memory)[i]);
  return values;
}

void store(void* memory, const std::vector<float>& values, DType dtype) {
  for (size_t i = 0; i < values.size(); ++i)
    if (dtype == DType::kF32)
      static_cast<float*>(memory)[i] = values[i];
    else
      static_cast<Bf16*>(memory)[i] = from_f32<Bf16>(values[i]);
}

// The CPU side of one context: primitives and scratch are kept in it.
struct Host {
  std::unique_ptr<Device> device = make_cpu_device();
  std::unique_ptr<Stream> stream = device->make_stream();
  std::unique_ptr<Context> context;
  std::mutex in_use;  // a graph may be launched from another thread
};

std::shared_ptr<Host> host_of(Context& context) {
  auto& host = context.cache<std::shared_ptr<Host>>();
  if (!host) {
    host = std::make_shared<Host>();
    host->context = std::make_unique<Context>(
        *host->device, *host->stream, context.threads(), context.determinism());
  }
  return host;
}

// Filters between (K, R, S, C) and (K, C, R, S).
enum class To : uint8_t { kKcrs, kKrsc };
std::vector<float> reordered(const std::vector<float>& from,
                             const ConvSize& s,
                             To to) {
  std::vector<float> filters(from.size());
  for (int64_t k = 0; k < s.K; ++k)
    for (int64_t c = 0; c < s.C; ++c)
      for (int64_t rs = 0; rs < s.R * s.S; ++rs) {
        const int64_t kcrs = (k * s.C + c) * s.R * s.S + rs;
        const int64_t krsc = (k * s.R * s.S + rs) * s.C + c;
        if (to == To::kKcrs)
          filters[kcrs] = from[krsc];
        else
          filters[krsc] = from[kcrs];
      }
  return filters;
}

// The pass on the host; returns what is assigned.
std::vector<float> pass_on_host(Context& host,
                                ConvPass pass,
                                std::vector<float> x,
                                std::vector<float> w,
                                std::vector<float> y,
                                const ConvSize& s) {
  const Tensor images =
      make_tensor(x.data(), DType::kF32, {s.N, s.C, s.H, s.W}, Layout::kNhwc);
  const Tensor filters =
      make_tensor(w.data(), DType::kF32, {s.K, s.C, s.R, s.S});
  const Tensor results = make_tensor(y.data(), DType::kF32,
                                     {s.N, s.K, s.P(), s.Q()}, Layout::kNhwc);
  switch (pass) {
    case ConvPass::kForward:
      cpu_bodies().conv_forward(host, results, images, filters, s);
      return y;
    case ConvPass::kBackwardData:
      cpu_bodies().conv_backward_data(host, images, results, filters, s);
      return x;
    case ConvPass::kBackwardWeights:
      cpu_bodies().conv_backward_weights(host, filters, images, results, s);
      return reordered(w, s, To::kKrsc);
  }
  CHECK(false);
}

// Calls run(), before which the context's chooser is asked once for each
// problem, as the libraries' callers ask it.
template <typename Run>
void run_chosen(Context& context, const std::string& problem, const Run& run) {
  PlanChooser* const chooser = context.plan_chooser();
  if (chooser != nullptr &&
      context.cache<std::set<std::string>>().insert(problem).second)
    chooser->choose(context, {.problem = problem,
                              .plans = {"emulated", "emulated again"},
                              .run = [&](size_t) { run(); }});
  run();
}

}  // namespace

void convolve(Context& context,
              ConvPass pass,
              const ConstTensor& x,
              const void* krsc,
              const ConstTensor& y,
              const ConvSize& size) {
  CHECK(x.layout == Layout::kNhwc && y.layout == Layout::kNhwc);
  CHECK(x.dtype == y.dtype);
  for (const void* memory : {x.data, krsc, y.data})
    CHECK(is_gemm_aligned(memory));
  const std::string problem =
      fmt::format("{} n{} c{} h{} k{} r{}", name_of(pass), size.N, size.C,
                  size.H, size.K, size.R);
  run_chosen(context, problem, [&] {
    emulator::run_on(
        context.stream(),
        [host = host_of(context), pass, x, krsc, y, size] {
          const std::lock_guard lock(host->in_use);
          const int64_t weights = size.K * size.C * size.R * size.S;
          const bool assigns_x = pass == ConvPass::kBackwardData;
          const bool assigns_w = pass == ConvPass::kBackwardWeights;
          const auto operand = [&](bool is_assigned, const void* memory,
                                   int64_t elems) {
            return is_assigned ? std::vector<float>(static_cast<size_t>(elems))
                               : floats_of(memory, elems, x.dtype);
          };
          const void* assigned = assigns_x ? x.data : assigns_w ? krsc : y.data;
          store(
              const_cast<void*>(assigned),
              pass_on_host(
                  *host->context, pass, operand(assigns_x, x.data, x.elems()),
                  reordered(operand(assigns_w, krsc, weights), size, To::kKcrs),
                  operand(!assigns_x && !assigns_w, y.data, y.elems()), size),
              x.dtype);
        },
        name_of(pass));
  });
  context.ran_by("emulated library");
}

bool gemm(Context& context,
          void* c,
          const void* a,
          const void* b,
          const void* addend,
          const void* bias,
          const Gemm& product) {
  if (product.M == 0 || product.N == 0) return true;
  for (const void* memory : {static_cast<const void*>(c), a, b, addend, bias})
    CHECK(is_gemm_aligned(memory));
  CHECK(bias == nullptr || addend == nullptr);
  if (is_refusing_products) return false;
  const std::string problem =
      fmt::format("gemm m{} n{} d{}", product.M, product.N, product.D);
  run_chosen(context, problem, [&] {
    emulator::run_on(
        context.stream(),
        [threads = context.threads(), c, a, b, addend, bias, product] {
          const auto& [M, N, D, turned_a, turned_b, input, output] = product;
          const auto as = floats_of(a, M * D, input);
          const auto bs = floats_of(b, D * N, input);
          std::vector<float> sums(static_cast<size_t>(M * N));
          if (addend != nullptr) sums = floats_of(addend, M * N, output);
          if (bias != nullptr) {
            const auto row = floats_of(bias, N, output);
            for (int64_t i = 0; i < M * N; ++i) sums[i] = row[i % N];
          }
          const bool is_a_turned = turned_a == Transpose::kYes;
          const bool is_b_turned = turned_b == Transpose::kYes;
          omp_set_num_threads(threads);
          const auto status = dnnl::sgemm(
              is_a_turned ? 'T' : 'N', is_b_turned ? 'T' : 'N', M, N, D, 1.0f,
              as.data(), is_a_turned ? M : D, bs.data(), is_b_turned ? D : N,
              addend != nullptr || bias != nullptr ? 1.0f : 0.0f, sums.data(),
              N);
          CHECK(status == dnnl::status::success);
          store(c, sums, output);
        },
        "gemm");
  });
  context.ran_by("emulated library");
  return true;
}

}  // namespace syncopate::cuda

bool syncopate::emulator::set_refusing_products(bool is_refusing) {
  return cuda::is_refusing_products.exchange(is_refusing);
}
