// BERT with a span head for extractive question answering (Devlin et al. 2019,
// "BERT: pre-training of deep bidirectional transformers"), which predicts the
// tokens at which the answer begins and ends. Names and shapes are those of the
// published checkpoints; sequences are packed, so there is no padding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "layers/embeddings.h"
#include "layers/transformer_layer.h"
#include "models/network.h"
#include "models/registry.h"

namespace syncopate {

// Hugging Face's names of BertForQuestionAnswering.
const FileNames& bert_names();

class Bert : public Network {
 public:
  Bert(const ModelOptions& options, const QuestionSpec& spec, DType compute);

  std::vector<MetricInfo> metrics() const override;
  void plan(Context& context, int64_t batch, int64_t eval_batch) override;
  // One line for the user: the source of the initial values.
  std::string describe_start() const override;
  // BERT has no running statistics.
  void recompute_statistics(Context&,
                            const ReplicaView&,
                            const Batch&,
                            int64_t) override {}
  // For one sequence of maximum length.
  double forward_macs() const override;
  std::vector<std::span<const int32_t>> lookups(
      const Batch& batch) const override;

 protected:
  // Matrices and tables N(0, 0.02), biases 0, LayerNorms 1 and 0.
  void randomise(std::span<float> parameters,
                 std::span<float> buffers,
                 uint64_t seed) const override;
  // Returns logits (T, 2).
  Slot forward(Walk& walk, const Batch& batch) override;
  void backward(Walk& walk, const Batch& batch, const Slot& dlogits) override;
  void loss(Walk& walk, const Batch& batch, const LossArgs& args) override;
  int64_t rows_of(const Batch& batch) const override;
  Batch largest(int64_t N) const override;
  bool has_one_shape() const override { return false; }
  void check(const Batch& batch) const override;

 private:
  QuestionSpec spec_;
  int64_t head_columns_;
  std::optional<Embeddings> embeddings_;
  std::vector<TransformerLayer> layers_;
  std::optional<Linear> head_;
  // Kept from forward to backward: the input of each layer, and that of the
  // head in fp32.
  std::vector<Slot> inputs_;
  Slot head_input_;
};

}  // namespace syncopate
