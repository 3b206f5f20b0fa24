// One file of a checkpoint's state, of any version: its contents, and which of
// them have been taken.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/hdf5_file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/convert.h"

namespace syncopate {

using Dims = std::vector<int64_t>;

class StateFile {
 public:
  // Opens a file of a verified checkpoint. Older versions are converted.
  StateFile(const fs::path& path, int64_t format_version);
  static std::unique_ptr<StateFile> open(const FoundCheckpoint& found,
                                         const std::string& file);

  // Takes each name once. Error(kBadInput) if it is absent, or has another type
  // or other dimensions (an older version's have none).
  template <typename T>
  void take(const std::string& name, Dims dims, std::span<T> values) {
    if (take_converted(name, values)) return;
    const auto found = left_.find(name);
    if (found == left_.end())
      fail(ExitCode::kBadInput, "{}: no state '{}' in it, or asked for twice",
           path_, name);
    const Hdf5Dataset expected{name, element_type_of<T>(), std::move(dims)};
    if (describe(found->second) != describe(expected))
      fail(ExitCode::kBadInput, "{}: {}: {} found, {} expected", path_, name,
           describe(found->second), describe(expected));
    reader_.read(name, values);
    left_.erase(found);
  }
  // Takes a slice that version 1 stored as one range, without its tensors.
  bool take_flat(const std::string& name, std::span<float> slice);

  // Whether state of this name, or tensors "NAME/...", has not been taken yet.
  bool has(const std::string& name) const;
  bool has_values(const std::string& name) const {
    return left_.contains(name);
  }
  // Returns the datasets "NAME/..." that have not been taken yet.
  std::vector<Hdf5Dataset> tensors_of(const std::string& name) const;
  // Reads regardless of dimensions, as often as needed.
  template <typename T>
  std::vector<T> read(const std::string& name) const {
    if (converted_) {
      const auto* stored = std::get_if<std::vector<T>>(&converted_->at(name));
      if (stored == nullptr)
        fail(ExitCode::kBadInput, "{}: {}: of another type", path_, name);
      return *stored;
    }
    std::vector<T> values(static_cast<size_t>(left_.at(name).elems()));
    reader_.read(name, std::span<T>(values));
    return values;
  }
  // Returns the index in its tensor of the first element that is in the file.
  int64_t first_of(const std::string& name) const {
    return converted_ ? 0 : reader_.int_attribute(name, "first").value_or(0);
  }

  // State that did not exist when the file was written keeps its initial value.
  bool is_younger(const std::string& name) const {
    return is_younger_than_version_2(name) ||
           (converted_ && is_unknown_to_version_1(name));
  }
  void require_all_taken() const;

 private:
  void convert();
  // Version 1: settles choco's c, using the other workers' files.
  void settle_choco(const FoundCheckpoint& found);
  template <typename T>
  bool take_converted(const std::string& name, std::span<T> values) {
    if (!converted_) return false;
    const auto found = converted_->find(name);
    if (found == converted_->end()) return false;
    const auto* stored = std::get_if<std::vector<T>>(&found->second);
    if (stored == nullptr || stored->size() != values.size())
      fail(ExitCode::kBadInput, "{}: {}: not the {} values expected", path_,
           name, values.size());
    std::copy(stored->begin(), stored->end(), values.begin());
    converted_->erase(found);
    left_.erase(name);
    return true;
  }

  std::string path_;
  Hdf5Reader reader_;
  std::map<std::string, Hdf5Dataset> left_;
  std::optional<NamedState> converted_;  // set for an older version
};

}  // namespace syncopate
