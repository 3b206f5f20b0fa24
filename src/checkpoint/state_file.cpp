#include "checkpoint/state_file.h"

namespace syncopate {

StateFile::StateFile(const fs::path& path, int64_t format_version)
    : path_(path.string()), reader_(path) {
  for (Hdf5Dataset& dataset : reader_.datasets())
    left_.emplace(dataset.name, std::move(dataset));
  if (format_version == 1) convert();
}

void StateFile::convert() {
  NamedState state;
  for (const auto& [name, dataset] : left_) {
    const auto elems = static_cast<size_t>(dataset.elems());
    const auto read = [&]<typename T>(std::vector<T> values) {
      reader_.read(name, std::span<T>(values));
      state.emplace(name, std::move(values));
    };
    if (dataset.type == ElementType::kFloat32)
      read(std::vector<float>(elems));
    else if (dataset.type == ElementType::kFloat64)
      read(std::vector<double>(elems));
    else
      read(std::vector<int64_t>(elems));
  }
  convert_from_version_1(state);
  left_.clear();
  for (const auto& [name, values] : state)
    left_.emplace(name, Hdf5Dataset{name, ElementType::kFloat32, {}});
  converted_ = std::move(state);
}

bool StateFile::take_flat(const std::string& name, std::span<float> slice) {
  return converted_ && left_.contains(name) && take_converted(name, slice);
}

bool StateFile::has(const std::string& name) const {
  const auto next = left_.lower_bound(name);
  return next != left_.end() &&
         (next->first == name || next->first.starts_with(name + '/'));
}

void StateFile::require_all_taken() const {
  if (!left_.empty())
    fail(ExitCode::kBadInput, "{}: state '{}' is unknown to this run", path_,
         left_.begin()->first);
}

}  // namespace syncopate
