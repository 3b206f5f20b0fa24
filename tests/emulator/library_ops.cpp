// Convolutions and matrix products of the emulated GPU. The real one calls
// vendor libraries for them (kernels/conv.cpp, kernels/matmul.cpp); here the
// CPU bodies stand in, on emulated memory and in the order of the stream.
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/few_outputs.h"
#include "emulator/emulator.h"
#include "ops/bodies.h"

namespace syncopate::cuda {
namespace {

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

// Opens the emulated memory of a tensor, which is done by a signal at the first
// touch: the CPU library's generated code keeps other things than a stack where
// the stack pointer points, and a signal there would write into them.
void open(const ConstTensor& tensor) {
  if (tensor.data == nullptr) return;
  constexpr int64_t kPage = 4096;
  const auto* bytes = static_cast<const volatile char*>(tensor.data);
  for (int64_t at = 0; at < tensor.bytes(); at += kPage) (void)bytes[at];
  if (tensor.bytes() > 0) (void)bytes[tensor.bytes() - 1];
}

// op(CPU context) as the next thing on the stream, which touches `tensors`.
// What is recorded keeps the CPU context and its arguments, not those of the
// caller.
template <typename Op>
void run(Context& context,
         const char* name,
         std::vector<ConstTensor> tensors,
         const Op& op) {
  emulator::run_on(
      context.stream(),
      [host = host_of(context), tensors = std::move(tensors), op] {
        const std::lock_guard lock(host->in_use);
        for (const ConstTensor& tensor : tensors) open(tensor);
        op(*host->context);
      },
      name);
  context.ran_by("emulated library");
}

// A convolution on a GPU knows no other layout.
void check_nhwc(const ConstTensor& x, const ConstTensor& y) {
  CHECK(x.layout == Layout::kNhwc && y.layout == Layout::kNhwc);
  CHECK(x.dtype == y.dtype);
}

}  // namespace

void conv_forward(Context& context,
                  Tensor y,
                  ConstTensor x,
                  ConstTensor w,
                  const ConvSize& size) {
  check_nhwc(x, y);
  run(context, "conv_forward", {y, x, w},
      [=](Context& host) { cpu_bodies().conv_forward(host, y, x, w, size); });
}

void conv_backward_data(Context& context,
                        Tensor dx,
                        ConstTensor dy,
                        ConstTensor w,
                        const ConvSize& size) {
  check_nhwc(dx, dy);
  run(context, "conv_backward_data", {dx, dy, w}, [=](Context& host) {
    cpu_bodies().conv_backward_data(host, dx, dy, w, size);
  });
}

void conv_backward_weights(Context& context,
                           Tensor dw,
                           ConstTensor x,
                           ConstTensor dy,
                           const ConvSize& size) {
  check_nhwc(x, dy);
  run(context, "conv_backward_weights", {dw, x, dy}, [=](Context& host) {
    cpu_bodies().conv_backward_weights(host, dw, x, dy, size);
  });
}

void linear_forward(Context& context,
                    Tensor y,
                    ConstTensor x,
                    ConstTensor w,
                    ConstTensor b) {
  if (has_few_outputs(x.shape[0], w.shape[0]))
    return few_outputs_forward(context, y, x, w, b);
  run(context, "linear_forward", {y, x, w, b},
      [=](Context& host) { cpu_bodies().linear_forward(host, y, x, w, b); });
}

void linear_backward(Context& context,
                     Tensor dx,
                     Tensor dw,
                     Tensor db,
                     ConstTensor dy,
                     ConstTensor x,
                     ConstTensor w) {
  if (has_few_outputs(x.shape[0], w.shape[0]))
    return few_outputs_backward(context, dx, dw, db, dy, x, w);
  run(context, "linear_backward", {dx, dw, db, dy, x, w}, [=](Context& host) {
    cpu_bodies().linear_backward(host, dx, dw, db, dy, x, w);
  });
}

}  // namespace syncopate::cuda
