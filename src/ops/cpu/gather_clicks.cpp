#include "ops/gather_clicks.h"

#include <algorithm>

#include "ops/bodies.h"
#include "ops/cpu/parallel.h"

namespace syncopate::cpu {

void gather_clicks(Context& context,
                   Tensor rows,
                   Tensor labels,
                   ConstTensor table,
                   ConstTensor clicked,
                   ConstTensor samples) {
  const int64_t N = rows.shape[0], F = rows.shape[1], S = table.shape[0];
  const auto* sample = static_cast<const int32_t*>(samples.data);
  const auto* record = static_cast<const int32_t*>(table.data);
  const auto* is_clicked = static_cast<const uint8_t*>(clicked.data);
  auto* row = static_cast<int32_t*>(rows.data);
  auto* label = static_cast<int32_t*>(labels.data);
  for (int64_t n = 0; n < N; ++n)
    CHECK_MSG(sample[n] >= 0 && sample[n] < S, "sample {} of {}", sample[n], S);
  parallel_for(context, N, N * F, [&](int64_t n) {
    std::copy_n(record + sample[n] * F, F, row + n * F);
    label[n] = is_clicked[sample[n]];
  });
}

}  // namespace syncopate::cpu
