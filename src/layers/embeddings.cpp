#include "layers/embeddings.h"

#include "ops/embedding.h"

namespace syncopate {

Embeddings::Embeddings(Registrar& registrar,
                       const std::string& name,
                       const EmbeddingsShape& shape,
                       uint64_t place)
    : shape_(shape),
      place_(place),
      words_(registrar.parameter(name + ".word_embeddings.weight",
                                 {shape.vocabulary, shape.hidden},
                                 Role::kEmbedding)),
      // A batch touches most rows of these two, so they count as weights.
      positions_(registrar.parameter(name + ".position_embeddings.weight",
                                     {shape.positions, shape.hidden},
                                     Role::kWeight)),
      segments_(registrar.parameter(name + ".token_type_embeddings.weight",
                                    {2, shape.hidden},
                                    Role::kWeight)),
      norm_(registrar, name + ".LayerNorm", shape.hidden) {}

Slot Embeddings::forward(Walk& walk, const TokenIds& ids) {
  const Slot sum = walk.take(walk.dtype(), {walk.samples(), shape_.hidden});
  if (walk.is_running()) {
    const EmbeddingInput inputs[] = {
        {walk.parameter(words_), ids.tokens},
        {walk.parameter(segments_), ids.segments},
        {walk.parameter(positions_), ids.positions}};
    embedding_forward(walk.context(), walk.out(sum), inputs);
  }
  const Slot y = norm_.forward(walk, sum);
  if (walk.pass() == Pass::kTrain) drop_tokens(walk, y);
  return y;
}

void Embeddings::drop_tokens(Walk& walk, const Slot& x) const {
  if (shape_.dropout > 0 && walk.is_running())
    token_dropout(walk.context(), walk.out(x), walk.in(x), walk.run().sequences,
                  token_dropout_of(walk, shape_.dropout, place_));
}

void Embeddings::backward(Walk& walk, const Slot& dy, const TokenIds& ids) {
  drop_tokens(walk, dy);
  norm_.backward(walk, dy);
  if (walk.is_running()) {
    const ConstTensor dsum = walk.in(dy);
    embedding_backward(walk.context(), walk.gradient(words_), dsum, ids.tokens);
    embedding_backward(walk.context(), walk.gradient(segments_), dsum,
                       ids.segments);
    embedding_backward(walk.context(), walk.gradient(positions_), dsum,
                       ids.positions);
  }
  walk.give_back(dy);
}

}  // namespace syncopate
