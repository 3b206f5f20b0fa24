#include "layers/dropout.h"

#include "ops/elementwise.h"

namespace syncopate {

void Dropout::apply(Walk& walk, const Slot& x) const {
  if (p_ == 0 || !walk.is_running() || walk.pass() == Pass::kEvaluate) return;
  // An odd multiplier spreads the layer index over the seed's bits, so no two
  // layers of a network share a mask.
  constexpr uint64_t kSpread = 0x9E3779B97F4A7C15;
  dropout(walk.context(), walk.out(x), walk.in(x), p_, walk.run().dropout_key,
          (layer_ + 1) * kSpread);
}

}  // namespace syncopate
