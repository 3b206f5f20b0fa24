// One layer of a post-norm transformer encoder (Vaswani et al. 2017; Devlin et
// al. 2019): self-attention, then the feed-forward network.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layers/feed_forward.h"
#include "layers/self_attention.h"

namespace syncopate {

// The tensors that are kept from forward to backward.
enum class Keep : uint8_t {
  kAll,    // everything backward reads
  kInput,  // only x: backward reruns forward, bit for bit
};

class TransformerLayer {
 public:
  // Dropout places of this layer: `place` and the next two.
  static constexpr uint64_t kPlaces = 3;

  // Registers NAME.attention..., NAME.intermediate..., NAME.output...
  TransformerLayer(Registrar& registrar,
                   const std::string& name,
                   const SelfAttentionShape& attention,
                   const FeedForwardShape& feed_forward,
                   Keep keep,
                   uint64_t place);

  int64_t first_offset() const { return attention_.first_offset(); }
  int64_t macs(int64_t length) const;  // per sequence

  // Returns y (T, H), newly taken. The caller keeps x, which in Pass::kTrain
  // must stay alive until backward.
  Slot forward(Walk& walk, const Slot& x);
  // Gives back dy and everything else forward took; returns dx, newly taken.
  Slot backward(Walk& walk, const Slot& dy, const Slot& x);

 private:
  Slot forward_keeping(Walk& walk, const Slot& x);
  SelfAttention attention_;
  FeedForward feed_forward_;
  Keep keep_;
  Slot middle_;  // (T, H) between the halves, kept until backward
};

}  // namespace syncopate
