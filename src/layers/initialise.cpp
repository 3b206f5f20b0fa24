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

}  // namespace

void initialise_parameters(std::span<float> parameters,
                           const ParameterTable& table,
                           uint64_t seed) {
  CHECK(std::ssize(parameters) == table.num_elems());
  double dense_bound = 0;  // of the matrix before a bias
  for (int index = 0; index < table.num_tensors(); ++index) {
    const ParameterEntry& entry = table[index];
    const Shape& shape = entry.shape;
    const std::span<float> values =
        parameters.subspan(entry.offset, entry.elems());
    const Rng rng(seed, Purpose::kInit, static_cast<uint64_t>(index));
    switch (entry.role) {
      case Role::kWeight:
        if (shape.rank() == 4) {
          const double fan_out = shape[0] * shape[2] * shape[3];
          fill_normal(values, std::sqrt(2.0 / fan_out), rng);
        } else {
          CHECK(shape.rank() == 2);
          dense_bound = 1 / std::sqrt(static_cast<double>(shape[1]));
          fill_uniform(values, dense_bound, rng);
        }
        break;
      case Role::kBias:
        CHECK(dense_bound > 0);
        fill_uniform(values, dense_bound, rng);
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
