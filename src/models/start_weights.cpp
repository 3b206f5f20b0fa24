#include "models/start_weights.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"

namespace syncopate {
namespace {

// Returns the names that a tensor may have in a file, the preferred one first.
std::vector<std::string> names_of(const FileNames& file,
                                  const ParameterEntry& entry) {
  const auto with_end = [](const std::string& name, const std::string& end) {
    return name.substr(0, name.rfind('.') + 1) + end;
  };
  std::vector<std::string> names{name_in_file(file, entry.name)};
  if (entry.role == Role::kLayerNorm)
    names.push_back(
        with_end(names[0], entry.name.ends_with(".weight") ? "gamma" : "beta"));
  if (file.prefix.empty()) return names;
  for (size_t i = 0, given = names.size(); i < given; ++i)
    if (names[i].starts_with(file.prefix))
      names.push_back(names[i].substr(file.prefix.size()));
  return names;
}

// Takes a vector because a file's tensor may have more dimensions than a Shape.
std::string text_of(const std::vector<int64_t>& dims) {
  return fmt::format("({})", fmt::join(dims, ", "));
}

// Returns which input key to check.
std::string hint_for(const FileNames& names, const std::string& name) {
  for (const FileNames::Hint& hint : names.hints)
    if (name.find(hint.part) != std::string::npos)
      return "; " + std::string(hint.text);
  return "";
}

// Weights of another network differ in nearly every tensor.
[[noreturn]] void fail_with(std::vector<std::string> errors) {
  constexpr size_t kNamed = 8;
  if (errors.size() > kNamed + 1) {
    const size_t others = errors.size() - kNamed;
    errors.resize(kNamed);
    errors.push_back(fmt::format("{} more tensors do not fit either", others));
  }
  fail(ExitCode::kBadInput, "model.weights: {}",
       join(errors, "\nerror: model.weights: "));
}

// What PyTorch's wrappers put before every name, such as "module.".
std::string wrapping_of(const SafeTensors& file) {
  if (file.tensors().empty()) return "";
  std::string found;
  const auto is_longer = [&](const std::string& by) {
    return std::ranges::all_of(file.tensors(), [&](const auto& tensor) {
      return tensor.name.starts_with(found + by);
    });
  };
  for (;;) {
    if (is_longer("module."))
      found += "module.";
    else if (is_longer("_orig_mod."))
      found += "_orig_mod.";
    else
      return found;
  }
}

bool is_of_head(const FileNames& names, const std::string& name) {
  return !names.head.empty() && name.starts_with(names.head);
}

}  // namespace

StartWeights::StartWeights(const WeightsSource& source,
                           const ParameterTable& parameters,
                           const ParameterTable& buffers)
    : source_(source) {
  if (!fs::exists(source_.path))
    fail(ExitCode::kInputMissing, "model.weights: {}: no such file",
         source_.path);
  const SafeTensors file(source_.path);
  wrapping_ = wrapping_of(file);
  parameters_ = find(file, parameters);
  buffers_ = find(file, buffers);
  check_missing();
  if (!errors_.empty()) fail_with(errors_);
  // Counters that PyTorch keeps beside running statistics are no loss.
  for (const SafeTensors::Tensor& tensor : file.tensors())
    if (!used_.contains(tensor.name.substr(wrapping_.size())) &&
        !tensor.name.ends_with(".num_batches_tracked"))
      unused_.push_back(tensor.name);
}

StartWeights::Names StartWeights::find(const SafeTensors& file,
                                       const ParameterTable& table) {
  Names sources;
  for (const ParameterEntry& entry : table.entries()) {
    const Names names = names_of(*source_.names, entry);
    const auto found = std::ranges::find_if(
        names,
        [&](const std::string& name) { return file.has(wrapping_ + name); });
    if (found == names.end()) {
      sources.emplace_back();
      missing_.push_back(names[0]);
      continue;
    }
    sources.push_back(*found);
    used_.insert(*found);
    check(file, entry, wrapping_ + *found);
  }
  return sources;
}

void StartWeights::check(const SafeTensors& file,
                         const ParameterEntry& entry,
                         const std::string& found) {
  if (!file.can_read(found))
    errors_.push_back(
        fmt::format("{}: {} is of {}, expected F32, F64, F16 or BF16",
                    source_.path, found, file.tensor(found).dtype));
  const std::string shape = text_of(file.shape(found));
  if (shape != entry.shape.text())
    errors_.push_back(fmt::format(
        "{}: {} has shape {}, but the network's has {}{}", source_.path, found,
        shape, entry.shape.text(), hint_for(*source_.names, found)));
}

void StartWeights::check_missing() {
  const FileNames& names = *source_.names;
  const bool has_head = std::ranges::any_of(
      used_, [&](const std::string& name) { return is_of_head(names, name); });
  for (const std::string& name : missing_)
    if (has_head || !is_of_head(names, name))
      errors_.push_back(fmt::format(
          "{}: {} is missing{}", source_.path, name,
          is_of_head(names, name)
              ? fmt::format("; the rest of {} is there",
                            names.head.substr(0, names.head.find('.')))
              : hint_for(names, name)));
}

void StartWeights::read(std::span<float> parameters,
                        const ParameterTable& parameter_table,
                        std::span<float> buffers,
                        const ParameterTable& buffer_table) const {
  const SafeTensors file(source_.path);
  read_range(file, parameters_, parameter_table, parameters);
  read_range(file, buffers_, buffer_table, buffers);
}

void StartWeights::read_range(const SafeTensors& file,
                              const Names& found,
                              const ParameterTable& table,
                              std::span<float> range) const {
  for (int index = 0; index < table.num_tensors(); ++index) {
    if (found[index].empty()) continue;
    const ParameterEntry& entry = table[index];
    const auto values = range.subspan(entry.offset, entry.elems());
    const std::string name = wrapping_ + found[index];
    file.read(name, values);
    check_values(entry, name, values);
    if (entry.name == source_.names->pixels)
      to_channels_last(values, entry.shape[0], source_.channels);
  }
}

// Damage, or the end of a run that diverged: no start for another one.
void StartWeights::check_values(const ParameterEntry& entry,
                                const std::string& name,
                                std::span<const float> values) const {
  const bool is_variance = entry.name.ends_with("running_var");
  for (const float value : values)
    if (!std::isfinite(value) || (is_variance && value < 0))
      fail(ExitCode::kBadInput, "model.weights: {}: {} holds {}, expected {}",
           source_.path, name, value,
           is_variance ? "variances" : "finite numbers");
}

std::string StartWeights::description() const {
  const auto listed = [](const Names& names) {
    constexpr size_t kShown = 4;
    const size_t shown = std::min(names.size(), kShown);
    return join(std::span(names).first(shown), ", ") +
           (names.size() > shown ? ", ..." : "");
  };
  std::string line = fmt::format("{} (XXH3-128 {}): {} tensors", source_.path,
                                 digest_of_file(source_.path), used_.size());
  if (!missing_.empty())
    line += fmt::format("; random because the file lacks them: {}",
                        listed(missing_));
  if (!unused_.empty())
    line += fmt::format("; {} of the file not used: {}", unused_.size(),
                        listed(unused_));
  return line;
}

}  // namespace syncopate
