#include "reference/sequences.h"

#include "base/rng.h"

namespace syncopate::reference {

Values token_dropout(const Values& x,
                     const std::vector<int64_t>& lengths,
                     int64_t H,
                     const Dropout& dropout) {
  Values y;
  uint64_t sample = dropout.first_sample;
  for (const int64_t length : lengths) {
    Rng rng(dropout.seed, Purpose::kDropout, sample++);
    for (int64_t i = 0; i < length * H; ++i) {
      const bool keep = rng.next_u32() >= dropout.p * 0x1.0p32;
      y.push_back(keep ? x[y.size()] / (1 - dropout.p) : 0);
    }
  }
  return y;
}

}  // namespace syncopate::reference
