// A small DeepFM on the test device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "gradient/network_bench.h"
#include "models/deepfm.h"

namespace syncopate {

// Records of a formula, which make_deepfm_fixtures.py has too.
struct Records {
  std::vector<int32_t> rows, labels;
  static Records made(const ClickSpec& spec, int64_t samples) {
    Records list;
    for (int64_t n = 0; n < samples; ++n) {
      int64_t begin = 0;
      for (int64_t f = 0; f < spec.fields(); ++f) {
        list.rows.push_back(static_cast<int32_t>(
            begin + (n * n + 3 * n * f + f) % spec.rows[f]));
        begin += spec.rows[f];
      }
      list.labels.push_back(n % 3 == 1);
    }
    return list;
  }
};

class DeepFmBench : public NetworkBench {
 public:
  DeepFmBench(const ClickSpec& spec,
              const DeepFmShape& shape,
              int64_t batch,
              DType compute = DType::kF32)
      : NetworkBench(std::make_unique<DeepFm>(spec, compute, shape), batch),
        records_(Records::made(spec, batch)),
        spec_(spec),
        device_rows_(on().device, *on().stream, std::ssize(records_.rows)),
        device_labels_(on().device, *on().stream, batch) {}

  // Samples [first, first + samples).
  Batch batch(int64_t first, int64_t samples) {
    device_rows_.assign(records_.rows);
    device_labels_.assign(records_.labels);
    Batch part;
    part.samples = samples;
    part.labels = make_const_tensor(device_labels_.data() + first, DType::kI32,
                                    {samples});
    part.rows = make_const_tensor(device_rows_.data() + first * spec_.fields(),
                                  DType::kI32, {samples, spec_.fields()});
    return part;
  }
  Batch batch() override { return batch(0, std::ssize(records_.labels)); }

  Records records_;

 private:
  ClickSpec spec_;
  DeviceVector<int32_t> device_rows_, device_labels_;
};

}  // namespace syncopate
