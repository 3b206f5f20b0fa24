// One reader a data.kind, and what they share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>

#include "data/loader.h"

namespace syncopate {

Dataset read_idx(const DataOptions& options);
Dataset read_cifar10(const DataOptions& options);
Dataset read_cifar100(const DataOptions& options);
Dataset read_hdf5_images(const DataOptions& options);
Dataset make_synthetic_images(const DataOptions& options);

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
