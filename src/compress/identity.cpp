#include "compress/identity.h"

#include "compress/message.h"
#include "ops/combine.h"

namespace syncopate {

void Identity::encode(Context& context,
                      std::span<uint32_t> message,
                      std::span<const float> x,
                      const Draw&) {
  CHECK(std::ssize(message) == elems_ && std::ssize(x) == elems_);
  context.device().copy(message.data(), x.data(),
                        static_cast<int64_t>(x.size_bytes()), context.stream());
}

void Identity::blend(Context& context,
                     std::span<float> y,
                     std::span<const uint32_t> message,
                     float a,
                     float b) {
  CHECK(std::ssize(message) == elems_ && std::ssize(y) == elems_);
  if (a == 0)
    combine(context, y, {{b, as_floats(message)}});
  else
    combine(context, y, {{a, y}, {b, as_floats(message)}});
}

}  // namespace syncopate
