#include "sync/power_sgd.h"

#include <algorithm>

#include "base/rng.h"
#include "keys/key.h"
#include "ops/combine.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "sync/kinds.h"
#include "sync/planned_bytes.h"
#include "sync/scheme_base.h"

namespace syncopate {
namespace {

std::span<float> span_of(const Tensor& tensor) {
  return {tensor.f32(), static_cast<size_t>(tensor.elems())};
}

Tensor matrix_at(float* data, int64_t rows, int64_t cols) {
  return make_tensor(data, DType::kF32, Shape{rows, cols});
}

std::vector<float> normal_values(int64_t elems, uint64_t seed, uint64_t step) {
  std::vector<float> values(elems);
  Rng rng(seed, Purpose::kQuantize, 0, step);
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

}  // namespace

PowerSgdLayout::PowerSgdLayout(const ParameterTable& table, int64_t rank) {
  for (const ParameterEntry& entry : table.entries()) {
    const int64_t rows = entry.shape.rank() > 1 ? entry.shape[0] : 1;
    const int64_t cols = entry.elems() / std::max<int64_t>(1, rows);
    if (rank * (rows + cols) < rows * cols) {
      matrices.push_back({entry.offset, rows, cols, p_elems, q_elems});
      p_elems += rows * rank;
      q_elems += rank * cols;
      continue;
    }
    const bool goes_on =
        !wholes.empty() &&
        wholes.back().offset + wholes.back().elems == entry.offset;
    if (goes_on)
      wholes.back().elems += entry.elems();
    else
      wholes.push_back({entry.offset, entry.elems(), p_elems});
    p_elems += entry.elems();
  }
}

namespace {

class PowerSgd final : public SchemeBase {
 public:
  explicit PowerSgd(const SchemeParts& parts);
  void update(const StepPlan& plan) override;

 private:
  using Matrix = PowerSgdLayout::Matrix;
  void prepare_q(int64_t step);
  void draw(DeviceVector<float>& values, uint64_t step);
  void project(const Matrix& matrix);
  void project_back(const Matrix& matrix);
  void decompress(const Matrix& matrix);
  Tensor p_of(const Matrix& m) {
    return matrix_at(p_.data() + m.p, m.rows, rank_);
  }
  Tensor q_of(const Matrix& m) {  // transposed
    return matrix_at(q_.data() + m.q, rank_, m.cols);
  }
  Tensor residual_of(const Matrix& m) {
    return matrix_at(residual_.data() + m.offset, m.rows, m.cols);
  }
  Tensor gradient_of(const Matrix& m) {
    return matrix_at(replica().gradients.data() + m.offset, m.rows, m.cols);
  }

  int64_t rank_;  // of the matrices
  bool is_warm_;
  PowerSgdLayout layout_;
  std::span<float> residual_;  // e, then M, then e
  DeviceVector<float> p_, q_;
  DeviceVector<float> transposed_;  // a Q (cols, rank)
  DeviceVector<float> spark_;       // keeps columns of Q from vanishing
};

PowerSgd::PowerSgd(const SchemeParts& parts)
    : SchemeBase(parts,
                 lockstep(parts, 1),
                 {.parameters = Owner::kShared,
                  .buffers = Owner::kWorker,
                  .optimizer = Owner::kShared}),
      rank_(parts.sync.power_sgd.rank),
      is_warm_(parts.sync.power_sgd.warm_start),
      layout_(parts.model.parameters(), rank_),
      residual_(keep_range(Owner::kWorker, "residual")),
      p_(make_range(layout_.p_elems)),
      q_(make_range(layout_.q_elems)) {
  unsent_ = residual_;
  int64_t largest = 0;
  for (const Matrix& matrix : layout_.matrices)
    largest = std::max(largest, rank_ * matrix.cols);
  transposed_ = make_range(largest);
  if (!is_warm_) return;
  spark_ = make_range(layout_.q_elems);
  draw(spark_, 0);
  draw(q_, 0);
  if (q_.empty()) return;
  keep([this](StateVisitor& visitor) {
    visitor.visit_device(Owner::kShared, "power_sgd_q", q_);
  });
}

// A column of Q that a low-rank gradient has made zero (initially so behind a
// layer that starts at zero) would stay zero: it is refilled with random
// values, too small to affect any other column.
void PowerSgd::prepare_q(int64_t step) {
  constexpr float kSpark = 1e-8f;
  if (is_warm_)
    axpy(context(), q_, kSpark, spark_);
  else
    draw(q_, static_cast<uint64_t>(step));
}

// Fills a matrix with N(0, 1), unless it has no memory.
void PowerSgd::draw(DeviceVector<float>& values, uint64_t step) {
  if (has_values(values.data()))
    values.assign(normal_values(layout_.q_elems, parts_.seed, step));
}

// M = g + e, P = M Q
void PowerSgd::project(const Matrix& matrix) {
  const Tensor m = residual_of(matrix);
  axpy(context(), span_of(m), 1, span_of(gradient_of(matrix)));
  linear_forward(context(), p_of(matrix), m, q_of(matrix), {});
}

// Q = M^T P, e = M - P Q^T
void PowerSgd::project_back(const Matrix& matrix) {
  const Tensor m = residual_of(matrix), p = p_of(matrix), q = q_of(matrix);
  orthonormalize(context(), span_of(p), matrix.rows, rank_);
  fill_zero(span_of(q));
  linear_backward(context(), {}, q, {}, p, m, q);
  decompress(matrix);
  axpy(context(), span_of(m), -1, span_of(gradient_of(matrix)));
}

// g = P Q^T
void PowerSgd::decompress(const Matrix& matrix) {
  // (rank, cols) to (cols, rank): channels first to channels last.
  const Shape shape{1, rank_, 1, matrix.cols};
  reorder(context(),
          make_tensor(transposed_.data(), DType::kF32, shape, Layout::kNhwc),
          make_tensor(q_of(matrix).data, DType::kF32, shape));
  linear_forward(context(), gradient_of(matrix), p_of(matrix),
                 matrix_at(transposed_.data(), matrix.cols, rank_), {});
}

void PowerSgd::update(const StepPlan& plan) {
  const std::span<float> gradients = replica().gradients, p = p_;
  if (!q_.empty()) prepare_q(plan.worker_steps / size());
  for (const Matrix& matrix : layout_.matrices) project(matrix);
  for (const auto& [offset, elems, at] : layout_.wholes)
    combine(context(), p.subspan(at, elems),
            {{1, gradients.subspan(offset, elems)}});
  average(world_, {{p_, wire_}});
  for (const Matrix& matrix : layout_.matrices) project_back(matrix);
  if (!q_.empty()) average(world_, {{q_, wire_}});
  for (const Matrix& matrix : layout_.matrices) decompress(matrix);
  for (const auto& [offset, elems, at] : layout_.wholes)
    combine(context(), gradients.subspan(offset, elems),
            {{1, p.subspan(at, elems)}});
  step_locally(plan);
}

void check_power_sgd(const SchemeRequest& request) {
  const int64_t rank = request.sync.power_sgd.rank;
  if (rank < 1)
    fail(ExitCode::kBadInput, "power_sgd.rank: {}, expected 1 or more", rank);
}

std::string note_on_rank(const SchemeRequest& request) {
  const int64_t rank = request.sync.power_sgd.rank;
  if (!PowerSgdLayout(request.parameters, rank).matrices.empty()) return "";
  return fmt::format(
      "power_sgd.rank = {} makes no tensor of this network smaller: gradients "
      "are averaged uncompressed",
      rank);
}

Keys power_sgd_keys() {
  return within(
      &SyncOptions::power_sgd,
      {
          {.name = "power_sgd.rank",
           .place = &PowerSgdOptions::rank,
           .doc = "Rank of a compressed gradient matrix.",
           .low = 1,
           .high = 1024},
          {.name = "power_sgd.warm_start",
           .place = &PowerSgdOptions::warm_start,
           .doc = "Whether a step starts from the previous step's factor."},
      });
}

std::optional<double> power_sgd_bytes(const TrafficPlan& plan) {
  const PowerSgdLayout layout(plan.request.parameters,
                              plan.request.sync.power_sgd.rank);
  return plan.all_reduce(plan.N, layout.p_elems, plan.wire) +
         plan.all_reduce(plan.N, layout.q_elems, plan.wire);
}

}  // namespace

SchemeInfo power_sgd_scheme() {
  return {.keyword = "power_sgd",
          .description =
              "gradients averaged as matrices of low rank, with "
              "error feedback",
          .make = &make<PowerSgd>,
          .check = &check_power_sgd,
          .note = &note_on_rank,
          .keys = &power_sgd_keys,
          .planned_bytes = &power_sgd_bytes,
          .uses_wire = true,
          .reduces_ranges = true,
          .uses_collectives = true,
          .keeps_replicas_equal = true,
          .averages_gradients = true};
}

}  // namespace syncopate
