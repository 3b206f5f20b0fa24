#include "ops/op_listener.h"

namespace syncopate {

Context::Context(Device& device,
                 Stream& stream,
                 int threads,
                 Determinism determinism)
    : device_(device),
      stream_(stream),
      threads_(threads),
      determinism_(determinism) {
  CHECK(threads >= 1);
}

Context::~Context() = default;

void* Context::scratch(int64_t bytes, int index) {
  Buffer& buffer = scratch_[index];
  if (buffer.bytes() < bytes) {
    stream_.synchronize();  // wait for work that uses the old buffer
    buffer = Buffer();      // not both at a time
    buffer = Buffer(device_, bytes);
    ++scratch_generation_;
  }
  return buffer.data();
}

const OpBodies& bodies_of(const Context& context) {
  return context.listener() ? followed_bodies() : device_bodies(context);
}

const OpBodies& device_bodies(const Context& context) {
  const DeviceKind kind = context.device().kind();
  if (kind == DeviceKind::kCpu) return cpu_bodies();
  if (kind == DeviceKind::kNone) return none_bodies();
  const OpBodies* bodies = cuda_bodies();
  CHECK_MSG(bodies != nullptr, "a cuda device without CUDA bodies");
  return *bodies;
}

}  // namespace syncopate
