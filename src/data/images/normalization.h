// Mean and standard deviation per channel, as data.normalize chooses them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
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
// With auto, the statistics of `samples` (ascending indices into `train`) only,
// so that held-out samples do not contribute. They are exact except for JPEG
// files, of which 256, evenly spread over `samples`, are decoded as evaluation
// sees them.
Normalization make_normalization(const DataOptions& options,
                                 const ImageSet& train,
                                 std::span<const int64_t> samples);
// The same for all samples.
Normalization make_normalization(const DataOptions& options,
                                 const ImageSet& train);
// The constants of "means / deviations", e.g. "0.5 0.4 / 0.2 0.2"; nullopt
// unless it has as many deviations, each more than 0, as means.
std::optional<Normalization> parse_normalization(const std::string& text);
// "means / deviations", a value of data.normalize that gives the same floats.
std::string format_normalization(const Normalization& normalization);

}  // namespace syncopate
