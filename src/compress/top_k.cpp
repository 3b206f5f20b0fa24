#include "compress/top_k.h"

namespace syncopate {

void TopK::encode(Context& context,
                  std::span<uint32_t> message,
                  std::span<const float> x,
                  const Draw&) {
  top_k_encode(context, values(message), places(message), x, segments_,
               selection_);
}

}  // namespace syncopate
