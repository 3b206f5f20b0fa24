#include "ops/context.h"

namespace syncopate {

Context::Context(Device& device, Stream& stream, int threads)
    : device_(device), stream_(stream), threads_(threads) {
  CHECK(threads >= 1);
}

Context::~Context() = default;

void* Context::scratch(int64_t bytes, int index) {
  Buffer& buffer = scratch_[index];
  if (buffer.bytes() < bytes) buffer = Buffer(device_, bytes);
  return buffer.data();
}

}  // namespace syncopate
