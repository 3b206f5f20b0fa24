// The reader of each data.kind of images, and what the readers share.
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

// Whether a file or folder without a training set is accepted.
inline bool may_lack_train(const DataOptions& options) {
  return options.trained.is_used && options.trained.classes > 0;
}

// Sets size, resizing and thread pool for kinds whose images are read on
// demand; both sets share the pool. Errors: kBadInput for invalid options.
void set_reading(const DataOptions& options, Dataset& data);

// An invalid label: its position and what is wrong with it.
struct LabelFault {
  int64_t position;
  std::string what;
};

// Labels must be in [0, classes). If `classes` is 0 because the format does not
// state it, sets it to the largest label plus one; labels must then be 0, 1,
// ... without a gap, because otherwise one corrupt label would silently widen
// the network.
std::optional<LabelFault> check_labels(std::span<const int32_t> labels,
                                       int64_t& classes);

// Class names come from files of unknown origin and go into the log and
// results. Error(kBadInput), which begins with `origin`, if one is not valid
// UTF-8 or has a control character, such as the line break between names.
void check_class_names(const std::string& origin,
                       std::span<const std::string> names);

}  // namespace syncopate
