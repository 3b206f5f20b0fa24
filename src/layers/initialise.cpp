#include "layers/initialise.h"

#include <algorithm>
#include <cmath>

namespace syncopate {

void fill_normal(std::span<float> values, double deviation, const Rng& rng) {
  constexpr int64_t kPiece = 8192;  // half a millisecond
  const int64_t count = std::ssize(values);
#pragma omp parallel for schedule(static) if (count > 2 * kPiece)
  for (int64_t begin = 0; begin < count; begin += kPiece) {
    Rng own = rng.after(begin);
    for (int64_t i = begin; i < std::min(count, begin + kPiece); ++i)
      values[static_cast<size_t>(i)] =
          static_cast<float>(deviation * own.normal());
  }
}

namespace {

void fill_uniform(std::span<float> values, double bound, Rng rng) {
  for (float& value : values)
    value = static_cast<float>(bound * (2 * rng.uniform() - 1));
}

void fill_truncated_normal(std::span<float> values, double variance, Rng rng) {
  // Standard deviation of N(0, 1) truncated at -2 and 2; its square is 1 - 4
  // f(2) / (1 - 2 F(-2)), with f and F the normal's density and distribution.
  constexpr double kCutDeviation = 0.87962566103423978;
  const double deviation = std::sqrt(variance) / kCutDeviation;
  for (float& value : values) {
    double draw = rng.normal();
    while (std::abs(draw) > 2) draw = rng.normal();
    value = static_cast<float>(deviation * draw);
  }
}

struct Fans {
  double in, out;
};
Fans fans_of(const Shape& shape) {
  if (shape.rank() == 2) return {double(shape[1]), double(shape[0])};
  CHECK(shape.rank() == 4);
  const auto window = static_cast<double>(shape[2] * shape[3]);
  return {window * double(shape[1]), window * double(shape[0])};
}

// For filters or a matrix.
void fill_weight(std::span<float> values,
                 const Shape& shape,
                 Init init,
                 const Rng& rng) {
  const Fans fans = fans_of(shape);
  const bool is_filter = shape.rank() == 4;
  switch (init) {
    case Init::kHe:
      if (is_filter)
        fill_normal(values, std::sqrt(2.0 / fans.out), rng);
      else
        fill_uniform(values, 1 / std::sqrt(fans.in), rng);
      return;
    case Init::kXavier:
      fill_uniform(values, std::sqrt(6 / (fans.in + fans.out)), rng);
      return;
    case Init::kT2t:
      fill_truncated_normal(
          values, is_filter ? 1 / fans.in : 4 / (fans.in + fans.out), rng);
      return;
    case Init::kGluon:
      fill_uniform(values, 0.07, rng);
      return;
  }
}

}  // namespace

void initialise_parameters(std::span<float> parameters,
                           const ParameterTable& table,
                           uint64_t seed,
                           Init init) {
  CHECK(std::ssize(parameters) == table.num_elems());
  Shape before;  // of the filters or matrix before a bias
  for (int index = 0; index < table.num_tensors(); ++index) {
    const ParameterEntry& entry = table[index];
    const Shape& shape = entry.shape;
    const std::span<float> values =
        parameters.subspan(entry.offset, entry.elems());
    const Rng rng(seed, Purpose::kInit, static_cast<uint64_t>(index));
    switch (entry.role) {
      case Role::kWeight:
        before = shape;
        fill_weight(values, shape, init, rng);
        break;
      case Role::kBias:
        CHECK(before.rank() == 2 || before.rank() == 4);
        if (init == Init::kHe && before.rank() == 2)
          fill_uniform(values, 1 / std::sqrt(fans_of(before).in), rng);
        else
          std::ranges::fill(values, 0.f);
        break;
      case Role::kBatchNorm:
      case Role::kLayerNorm:
        std::ranges::fill(values, entry.name.ends_with(".weight") ? 1.f : 0.f);
        break;
      case Role::kEmbedding:
        fill_normal(values, 0.02, rng);
        break;
      case Role::kStatistic:
        CHECK_MSG(false, "{} is no parameter", entry.name);
    }
  }
}

void initialise_buffers(std::span<float> buffers, const ParameterTable& table) {
  CHECK(std::ssize(buffers) == table.num_elems());
  for (const ParameterEntry& entry : table.entries())
    std::ranges::fill(buffers.subspan(entry.offset, entry.elems()),
                      entry.name.ends_with(".running_var") ? 1.f : 0.f);
}

}  // namespace syncopate
