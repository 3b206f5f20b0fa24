#include "models/shadow_weights.h"

namespace syncopate {

ShadowWeights::ShadowWeights(Context& context, const ShadowTable* table)
    : table_(table) {
  if (table == nullptr) return;
  Device& device = context.device();
  entries_ = {device, context.stream(), std::ssize(table->entries())};
  entries_.assign(table->entries());
  values_ = {device, context.stream(), table->num_elems()};
}

void ShadowWeights::renew(Context& context, std::span<const float> parameters) {
  if (is_stale_) copy_weights(context, parameters, slice());
  is_stale_ = false;
}

ShadowSlice ShadowWeights::rewrite() {
  is_stale_ = false;
  return slice();
}

}  // namespace syncopate
