#include "models/file_names.h"

#include <optional>

#include <fmt/format.h>

#include "base/check.h"
#include "base/text.h"

namespace syncopate {
namespace {

constexpr std::string_view kMean = "running_mean";
constexpr std::string_view kBatches = "num_batches_tracked";

size_t digits_of(std::string_view text) {
  const size_t end = text.find_first_not_of("0123456789");
  return std::min(end, text.size());
}

// Returns `name` with `row` applied, if it begins with row.ours.
std::optional<std::string> renamed(const FileNames::Row& row,
                                   std::string_view name) {
  std::vector<std::string_view> numbers;
  for (const char expected : row.ours) {
    const size_t taken =
        expected == '#' ? digits_of(name) : size_t{name.starts_with(expected)};
    if (taken == 0) return std::nullopt;
    if (expected == '#') numbers.push_back(name.substr(0, taken));
    name.remove_prefix(taken);
  }
  if (!name.empty() && name.front() != '.') return std::nullopt;
  std::string theirs;
  auto number = numbers.begin();
  for (const char c : row.theirs) {
    if (c == '#') {
      CHECK(number != numbers.end());
      theirs += *number++;
    } else {
      theirs += c;
    }
  }
  return theirs + std::string(name);
}

SafeTensors::Tensor listed(const FileNames& names,
                           const ParameterEntry& entry) {
  SafeTensors::Tensor tensor;
  tensor.name = name_in_file(names, entry.name);
  tensor.dtype = "F32";
  for (int axis = 0; axis < entry.shape.rank(); ++axis)
    tensor.shape.push_back(entry.shape[axis]);
  tensor.elems = entry.elems();
  return tensor;
}

// Returns the batch counter of the BatchNorm whose running mean `entry` is, or
// nullopt for another tensor.
std::optional<SafeTensors::Tensor> counter_beside(const FileNames& names,
                                                  const ParameterEntry& entry) {
  if (!entry.name.ends_with(kMean)) return std::nullopt;
  SafeTensors::Tensor tensor;
  const std::string mean = name_in_file(names, entry.name);
  tensor.name =
      mean.substr(0, mean.size() - kMean.size()) + std::string(kBatches);
  tensor.dtype = "I64";
  tensor.elems = 1;
  return tensor;
}

// (rows, a, b) becomes (rows, b, a).
void swap_axes(std::span<float> matrix, int64_t rows, int64_t a, int64_t b) {
  CHECK(std::ssize(matrix) == rows * a * b);
  std::vector<float> row(static_cast<size_t>(a * b));
  for (int64_t r = 0; r < rows; ++r) {
    float* const values = matrix.data() + r * a * b;
    std::copy(values, values + a * b, row.begin());
    for (int64_t i = 0; i < a; ++i)
      for (int64_t j = 0; j < b; ++j) values[j * a + i] = row[i * b + j];
  }
}

}  // namespace

std::string name_in_file(const FileNames& names, const std::string& ours) {
  for (const FileNames::Row& row : names.rows)
    if (const auto theirs = renamed(row, ours)) return *theirs;
  return ours;
}

void to_channels_first(std::span<float> matrix,
                       int64_t rows,
                       int64_t channels) {
  swap_axes(matrix, rows, std::ssize(matrix) / rows / channels, channels);
}

void to_channels_last(std::span<float> matrix, int64_t rows, int64_t channels) {
  swap_axes(matrix, rows, channels, std::ssize(matrix) / rows / channels);
}

std::vector<SafeTensors::Tensor> tensors_in_file(
    const FileNames& names,
    const ParameterTable& parameters,
    const ParameterTable& buffers) {
  std::vector<SafeTensors::Tensor> tensors;
  for (const ParameterEntry& entry : parameters.entries())
    tensors.push_back(listed(names, entry));
  for (const ParameterEntry& entry : buffers.entries()) {
    tensors.push_back(listed(names, entry));
    if (auto counter = counter_beside(names, entry))
      tensors.push_back(std::move(*counter));
  }
  return tensors;
}

void write_model(const fs::path& path,
                 const FileNames& names,
                 const ModelValues& model,
                 int64_t channels,
                 int64_t batches,
                 const std::map<std::string, std::string>& metadata) {
  std::vector<SafeTensorValues> tensors;
  std::vector<float> pixels;  // the one matrix that is rewritten
  const auto add = [&](const ParameterEntry& entry,
                       std::span<const float> range) {
    std::span<const float> values = range.subspan(entry.offset, entry.elems());
    if (entry.name == names.pixels) {
      CHECK(pixels.empty() && channels > 0);
      pixels.assign(values.begin(), values.end());
      to_channels_first(pixels, entry.shape[0], channels);
      values = pixels;
    }
    const SafeTensors::Tensor tensor = listed(names, entry);
    tensors.push_back({tensor.name, tensor.shape, values, {}});
  };
  for (const ParameterEntry& entry : model.parameters.entries())
    add(entry, model.parameter_values);
  for (const ParameterEntry& entry : model.buffers.entries()) {
    add(entry, model.buffer_values);
    if (const auto counter = counter_beside(names, entry))
      tensors.push_back({counter->name, {}, {}, std::span(&batches, 1)});
  }
  write_safetensors(path, tensors, metadata);
}

}  // namespace syncopate
