#include "checkpoint/state_file.h"

#include "checkpoint/manifest.h"

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

std::unique_ptr<StateFile> StateFile::open(const FoundCheckpoint& found,
                                           const std::string& file) {
  auto state =
      std::make_unique<StateFile>(found.folder / file, found.format_version);
  if (state->converted_) state->settle_choco(found);
  return state;
}

void StateFile::settle_choco(const FoundCheckpoint& found) {
  const std::string head = "c/";
  if (!has("c")) return;
  std::map<std::string, std::vector<double>> sums;
  for (const CheckpointFile& file : found.files) {
    if (file.name == kReplicaFileName) continue;
    const StateFile other(found.folder / file.name, found.format_version);
    for (const auto& [name, values] : *other.converted_) {
      const auto* c = std::get_if<std::vector<float>>(&values);
      if (c == nullptr || !name.starts_with(head)) continue;
      std::vector<double>& sum = sums[name];
      sum.resize(c->size(), 0.0);
      for (size_t i = 0; i < c->size(); ++i) sum[i] += (*c)[i];
    }
  }
  for (auto& [name, values] : *converted_)
    if (auto* c = std::get_if<std::vector<float>>(&values);
        c != nullptr && name.starts_with(head))
      remove_mean(*c, sums.at(name), found.facts.workers);
}

bool StateFile::take_flat(const std::string& name, std::span<float> slice) {
  return converted_ && left_.contains(name) && take_converted(name, slice);
}

bool StateFile::has(const std::string& name) const {
  const auto next = left_.lower_bound(name);
  return next != left_.end() &&
         (next->first == name || next->first.starts_with(name + '/'));
}

std::vector<Hdf5Dataset> StateFile::tensors_of(const std::string& name) const {
  if (converted_)
    fail(ExitCode::kBadInput,
         "{}: of format version 1, which has no shapes: resume the run with "
         "this program, which writes a new checkpoint",
         path_);
  const std::string head = name + '/';
  std::vector<Hdf5Dataset> tensors;
  for (auto next = left_.lower_bound(head);
       next != left_.end() && next->first.starts_with(head); ++next)
    tensors.push_back(next->second);
  return tensors;
}

void StateFile::require_all_taken() const {
  if (!left_.empty())
    fail(ExitCode::kBadInput, "{}: state '{}' is unknown to this run", path_,
         left_.begin()->first);
}

}  // namespace syncopate
