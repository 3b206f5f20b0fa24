#include "compress/random_k.h"

namespace syncopate {

RandomK::RandomK(Context& context,
                 const CompressOptions& options,
                 const ParameterTable& table)
    : Sparse(context, options, table),
      scaling_(options.biased ? Scaling::kNone : Scaling::kScaled),
      is_contractive_(true) {
  if (options.biased) return;
  for (int64_t tensor = 0; tensor < segments_.num_segments(); ++tensor)
    if (2 * selection_.kept(tensor) <= segments_.elems(tensor))
      is_contractive_ = false;
}

void RandomK::encode(Context& context,
                     std::span<uint32_t> message,
                     std::span<const float> x,
                     const Draw& draw) {
  random_k_encode(context, values(message), places(message), x, segments_,
                  selection_, draw, scaling_);
}

}  // namespace syncopate
