// BERT's first layer: token, position and segment embeddings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layers/layer_norm.h"

namespace syncopate {

struct EmbeddingsShape {
  int64_t hidden;      // H
  int64_t vocabulary;  // V
  int64_t positions;
  float dropout;
};

// The tokens of a batch; each tensor is (T) i32.
struct TokenIds {
  ConstTensor tokens, segments, positions;
};

class Embeddings {
 public:
  // Registers NAME.word_embeddings.weight (V, H), .position_embeddings.weight
  // (positions, H), .token_type_embeddings.weight (2, H) and NAME.LayerNorm.
  Embeddings(Registrar& registrar,
             const std::string& name,
             const EmbeddingsShape& shape,
             uint64_t place);

  // Returns dropout(norm(word + segment + position)) (T, H), newly taken.
  Slot forward(Walk& walk, const TokenIds& ids);
  // Gives back dy and everything else forward took.
  void backward(Walk& walk, const Slot& dy, const TokenIds& ids);

 private:
  // Applies dropout in place to the result or its gradient.
  void drop_tokens(Walk& walk, const Slot& x) const;
  EmbeddingsShape shape_;
  uint64_t place_;
  ParameterRef words_, positions_, segments_;
  LayerNorm norm_;
};

}  // namespace syncopate
