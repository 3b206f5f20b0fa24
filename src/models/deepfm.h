// DeepFM (Guo et al. 2017) in DS-Sync's form: first-order weights, and a
// factorisation machine and a network in parallel over the same embeddings.
//
//   logit = b + sum_f w_f + FM(v) + MLP(v)
//
// v_f is the embedding of field f's value. Each hidden layer of the MLP is
// Linear, BatchNorm, ReLU, dropout; the last layer has one output.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "layers/batch_norm.h"
#include "layers/dropout.h"
#include "layers/linear.h"
#include "models/network.h"

namespace syncopate {

struct DeepFmShape {
  int64_t embedding = 10;                   // width of v_f
  std::vector<int64_t> mlp{400, 400, 400};  // widths of hidden layers
  float dropout = 0.5f;
  bool has_normal_first_order = false;  // see DeepFm::randomise
};

// As in the table of parameters: PyTorch's modules embedding (R, D), linear
// (R, 1) with a bias (1), mlp.#.linear, mlp.#.bn, mlp.last.
const FileNames& deepfm_names();

class DeepFm final : public Network {
 public:
  DeepFm(const ClickSpec& spec, DType compute, const DeepFmShape& shape);

  std::vector<MetricInfo> metrics() const override;
  double forward_macs() const override;
  std::vector<std::span<const int32_t>> lookups(
      const Batch& batch) const override;
  bool marks_tables() const override { return true; }
  std::string batch_obstacle(int64_t batch) const override;
  void plan(Context& context, int64_t batch, int64_t eval_batch) override;

 protected:
  // Embeddings Xavier-uniform (Glorot and Bengio 2010) over the table's two
  // dimensions. First-order weights likewise, or N(0, 1) as in the published
  // program. Bias 0, the MLP as in layers/initialise.h (kHe).
  void randomise(std::span<float> parameters,
                 std::span<float> buffers,
                 uint64_t seed) const override;
  Slot forward(Walk& walk, const Batch& batch) override;
  void backward(Walk& walk, const Batch& batch, const Slot& dlogits) override;
  void loss(Walk& walk, const Batch& batch, const LossArgs& args) override;
  Batch largest(int64_t N) const override;
  void check(const Batch& batch) const override;

 private:
  struct Hidden {
    Linear linear;
    BatchNorm norm;
    Dropout dropout;
    Slot x, c, y;  // c = linear(x), y = dropout(relu(norm(c)))
  };
  Slot in_compute(Walk& walk, const Slot& x) const;
  Slot in_fp32(Walk& walk, const Slot& x) const;

  ClickSpec spec_;
  bool has_normal_first_order_;
  int64_t width_;                          // of v: fields * embedding
  ParameterRef embedding_, first_, bias_;  // (R, D), (R, 1), (1)
  std::deque<Hidden> hidden_;
  std::optional<Linear> last_;
  Slot v_, v_compute_, last_x_;  // from forward to backward
};

}  // namespace syncopate
