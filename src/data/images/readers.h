// One reader a data.kind, and what they share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/images/dataset.h"
#include "data/options.h"

namespace syncopate {

Dataset read_idx(const DataOptions& options);
Dataset read_cifar10(const DataOptions& options);
Dataset read_cifar100(const DataOptions& options);
Dataset read_hdf5_images(const DataOptions& options);
Dataset read_image_folder(const DataOptions& options);
Dataset read_prepared_images(const DataOptions& options);
Dataset make_synthetic_images(const DataOptions& options);

// The values' bytes, for digests.
template <typename T>
std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(T)};
}

// Size, resizing and threads of kinds whose images are read when needed; the
// two sets share their threads. Errors: kBadInput for impossible options.
void set_reading(const DataOptions& options, Dataset& data);

// A label that makes no sense: its position and why.
struct LabelFault {
  int64_t position;
  std::string what;
};

// For formats that do not say how many classes there are: the largest label
// plus one, in *classes. Labels must be 0, 1, ... without a gap, or a single
// damaged label would silently widen the network.
std::optional<LabelFault> count_classes(std::span<const int32_t> labels,
                                        int64_t* classes);
// Labels must be in [0, classes).
std::optional<LabelFault> check_labels(std::span<const int32_t> labels,
                                       int64_t classes);

}  // namespace syncopate
