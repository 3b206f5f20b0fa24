#include "compress/compressor.h"

namespace syncopate {

void Compressor::decode(Context& context,
                        std::span<float> q,
                        std::span<const uint32_t> message) {
  if (is_sparse())
    context.device().fill_zero(q.data(), static_cast<int64_t>(q.size_bytes()),
                               context.stream());
  blend(context, q, message, 0, 1);
}

}  // namespace syncopate
