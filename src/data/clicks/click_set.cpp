#include "data/clicks/click_set.h"

#include <algorithm>

#include "base/check.h"
#include "data/kinds.h"

namespace syncopate {

ClickData load_clicks(const DataOptions& options) {
  const DataKind* kind = find_data_kind(options.kind);
  CHECK_MSG(kind != nullptr && kind->read_clicks != nullptr, "data.kind: {}",
            options.kind);
  ClickData data = kind->read_clicks(options);
  if (data.spec.total_rows() > INT32_MAX)
    fail(ExitCode::kBadInput, "{}: {} rows of all fields, expected at most {}",
         data.source, data.spec.total_rows(), INT32_MAX);
  return data;
}

void ClickBatch::fill(const ClickSet& set,
                      const ClickSpec& spec,
                      std::span<const int64_t> samples,
                      ThreadPool* pool) {
  fields = spec.fields();
  const auto F = static_cast<size_t>(fields);
  labels.resize(samples.size());
  rows.resize(samples.size() * F);
  std::vector<int32_t> first_rows;  // of each field in the tables
  int64_t first = 0;
  for (const int64_t of_field : spec.rows) {
    first_rows.push_back(static_cast<int32_t>(first));
    first += of_field;
  }
  CHECK(first <= INT32_MAX);
  const std::span<const uint8_t> clicked = set.clicked();
  const auto read = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const int64_t sample = samples[i];
      CHECK(sample >= 0 && sample < set.samples());
      labels[i] = clicked[static_cast<size_t>(sample)];
      const std::span<int32_t> of_sample(rows.data() + i * F, F);
      set.read(sample, of_sample);
      for (size_t f = 0; f < F; ++f) of_sample[f] += first_rows[f];
    }
  };
  if (pool == nullptr) return read(0, samples.size());
  // Some 50 us each, far longer than it takes to hand one out.
  constexpr size_t kPiece = 256;
  pool->run(static_cast<int64_t>((samples.size() + kPiece - 1) / kPiece),
            [&](int64_t piece) {
              const size_t begin = static_cast<size_t>(piece) * kPiece;
              read(begin, std::min(begin + kPiece, samples.size()));
            });
}

Batch ClickBatch::view() const {
  const int64_t N = std::ssize(labels);
  return {.samples = N,
          .labels = make_const_tensor(labels.data(), DType::kI32, {N}),
          .rows = make_const_tensor(rows.data(), DType::kI32, {N, fields})};
}

}  // namespace syncopate
