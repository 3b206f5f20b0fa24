#include "data/vectors/vector_set.h"

#include <algorithm>

#include "base/check.h"
#include "base/file.h"
#include "base/rng.h"

namespace syncopate {
namespace {

constexpr int64_t kWidth = 16;
constexpr uint64_t kCentres = 0, kTrain = 1, kTest = 2;

std::vector<float> normals(uint64_t seed,
                           uint64_t stream,
                           int64_t sample,
                           int64_t width) {
  Rng rng(seed, Purpose::kSynthetic, static_cast<uint64_t>(sample), stream);
  std::vector<float> values;
  for (int64_t i = 0; i < width; ++i)
    values.push_back(static_cast<float>(rng.normal()));
  return values;
}

VectorSet make_set(const DataOptions& options,
                   const VectorSpec& spec,
                   uint64_t stream,
                   int64_t samples) {
  VectorSet set;
  for (int64_t sample = 0; sample < samples; ++sample) {
    const int64_t label = sample % spec.classes;
    const auto centre =
        normals(options.synthetic_seed, kCentres, label, spec.width);
    const auto noise =
        normals(options.synthetic_seed, stream, sample, spec.width);
    for (size_t i = 0; i < centre.size(); ++i)
      set.values.push_back(centre[i] + noise[i]);
    set.labels.push_back(static_cast<int32_t>(label));
  }
  return set;
}

}  // namespace

VectorData make_synthetic_vectors(const DataOptions& options) {
  VectorData data;
  data.spec = {.width = kWidth, .classes = options.classes};
  data.train = make_set(options, data.spec, kTrain, options.samples);
  data.test = make_set(options, data.spec, kTest, options.test_samples);
  data.source =
      fmt::format("synthetic_vectors, seed {}", options.synthetic_seed);
  for (const VectorSet* set : {&data.train, &data.test})
    data.digest += digest_of({reinterpret_cast<const char*>(set->values.data()),
                              set->values.size() * sizeof(float)});
  data.digest = digest_of(data.digest + std::to_string(data.spec.classes));
  return data;
}

void VectorBatch::fill(const VectorSet& set,
                       const VectorSpec& spec,
                       std::span<const int64_t> samples) {
  values.clear();
  labels.clear();
  for (const int64_t sample : samples) {
    CHECK(sample >= 0 && sample < set.samples());
    const auto first = set.values.begin() + sample * spec.width;
    values.insert(values.end(), first, first + spec.width);
    labels.push_back(set.labels[static_cast<size_t>(sample)]);
  }
}

Batch VectorBatch::view(const VectorSpec& spec) const {
  const int64_t N = std::ssize(labels);
  return {.samples = N,
          .labels = make_const_tensor(labels.data(), DType::kI32, {N}),
          .vectors =
              make_const_tensor(values.data(), DType::kF32, {N, spec.width})};
}

}  // namespace syncopate
