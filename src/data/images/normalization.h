// Mean and standard deviation per channel, as data.normalize chooses them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/images/dataset.h"
#include "data/options.h"

namespace syncopate {

// Per channel, in units of stored pixels / 255 (bytes) or as stored (floats).
struct Normalization {
  std::vector<float> mean, std;
};
// auto: of `samples` (ascending indices into `train`) alone, so that what is
// held out has no part in it. Exact, but for JPEG files, of which it decodes
// 256 (the middle that evaluation sees) spread evenly over `samples`.
Normalization make_normalization(const DataOptions& options,
                                 const ImageSet& train,
                                 std::span<const int64_t> samples);
// The same of all samples.
Normalization make_normalization(const DataOptions& options,
                                 const ImageSet& train);
// "means / deviations", a value of data.normalize that gives the same floats.
std::string format_normalization(const Normalization& normalization);

}  // namespace syncopate
